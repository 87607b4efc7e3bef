"""Makes vLLM know our models. vLLM calls ``register`` in each of its processes."""

from __future__ import annotations

ARCHITECTURE = "NextWordForCausalLM"
"""What stands under ``architectures`` in the configuration of a saved decoder-only model."""


def register() -> None:
    """Registers the model, and may be called again. Its configuration is known once nextword is imported."""
    from vllm import ModelRegistry

    # a name, since importing the class would start CUDA in processes that must not
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, "nextword.serving.vllm.served_model:ServedModel")
