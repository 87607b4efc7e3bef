"""Makes vLLM know our models. vLLM calls ``register`` in each of its processes."""

from __future__ import annotations

from typing import Any

ARCHITECTURE = "NextWordForCausalLM"
"""What stands under ``architectures`` in the configuration of a saved decoder-only model."""


def register() -> None:
    """Registers the model, and may be called again. Its configuration is known once nextword is imported."""
    from vllm import ModelRegistry
    from vllm.model_executor.models.config import MODELS_CONFIG_MAP

    # a name, since importing the class would start CUDA in processes that must not
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, "nextword.serving.vllm.served_model:ServedModel")
    MODELS_CONFIG_MAP[ARCHITECTURE] = SettingsCheck


class SettingsCheck:
    """Asked when vLLM has read its settings, before it starts a process: a refusal is the last line, not in a log."""

    @staticmethod
    def verify_and_update_config(vllm_config: Any) -> None:
        """Raises ValueError where the model cannot be served in this way."""
        from nextword.serving.vllm.servable import expect_servable

        expect_servable(vllm_config.model_config.hf_config, vllm_config)

    @staticmethod
    def verify_and_update_model_config(model_config: Any) -> None:
        """Nothing to change."""
