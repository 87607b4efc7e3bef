"""Registers nextword models with vLLM. vLLM calls ``register`` in each of its processes."""

from __future__ import annotations

import logging
from typing import Any

from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from nextword.heads import head_spec
from nextword.heads.head import Head

ARCHITECTURE = "NextWordForCausalLM"
"""Name under ``architectures`` in the configuration of a saved decoder-only model."""


def register() -> None:
    """Registers the model class with vLLM, if it is not registered. ``import nextword`` registers the configuration."""
    from vllm import ModelRegistry
    from vllm.model_executor.models.config import MODELS_CONFIG_MAP

    # the class is given by name, because importing it would start CUDA in processes in which it must not start
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, "nextword.serving.vllm.served_model:ServedModel")
    MODELS_CONFIG_MAP[ARCHITECTURE] = SettingsCheck


class SettingsCheck:
    """Checks vLLM's settings before it starts processes, so that an error is the last line of its output."""

    @staticmethod
    def verify_and_update_config(vllm_config: Any) -> None:
        """Raises ValueError if vLLM cannot serve the model with the settings ``vllm_config``."""
        expect_servable(vllm_config.model_config.hf_config, vllm_config)

    @staticmethod
    def verify_and_update_model_config(model_config: Any) -> None:
        """Does nothing; vLLM requires this method."""


# -- What vLLM cannot serve. An error says so before weights are read.

logger = logging.getLogger(__name__)

_DRAFTS = ("ngram", "custom_class")
"""Drafting methods without a draft model: n-gram lookup, and a class such as ``CopyHeadProposer``."""


def backbone_architecture(config: Any) -> str:
    """Name of the backbone's class, which is the same in vLLM and transformers. Raises ValueError if vLLM lacks it."""
    from vllm import ModelRegistry

    kind = config.text_config.model_type
    name = config.backbone_class or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    if name not in ModelRegistry.get_supported_archs():
        raise ValueError(f"vLLM has no model of its own for the backbone '{kind}'; serve it with 'nextword serve'")
    return str(name)


def expect_servable(config: Any, vllm_config: Any) -> None:
    """Raises ValueError, which says why, if vLLM with ``vllm_config`` cannot serve a model with ``config``."""
    backbone_architecture(config)
    if config.conditioner is not None:
        raise ValueError("a conditioned model: vLLM does not support auxiliary texts; use generate")
    parallel = vllm_config.parallel_config
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if (size := getattr(parallel, name)) > 1:
            raise ValueError(
                f"{name}: must be 1 ({size} given), because a head reads the whole output embedding; start several "
                "servers, or data_parallel_size"
            )
    drafts = vllm_config.speculative_config
    if drafts is not None and drafts.method not in _DRAFTS:
        raise ValueError(
            f"speculative_config: method must be one of {', '.join(_DRAFTS)} ({drafts.method} given); others draft "
            "with models of their own, which is not tested with a head"
        )
    if vllm_config.quant_config is not None or vllm_config.model_config.quantization is not None:
        raise ValueError("quantization: must not be given; a head reads the output embedding as it is")


def expect_head_fits(head: Head, vllm_config: Any) -> None:
    """Raises ValueError if a head does not support vLLM's settings. Warns if vLLM samples unlike ``generate``."""
    spec = head_spec(head.config)
    if head.draw(head.config, sample=True) is not None:
        logger.warning(
            "head '%s': generate chooses a class before each token (decoupled decoding). vLLM takes the token from the "
            "whole distribution, as generate does with decoupled=False; class_top_k and class_top_p have no effect",
            spec,
        )
    drafts = vllm_config.speculative_config
    if drafts is not None and str(drafts.model).endswith(".CopyHeadProposer") and not head.reads_words:
        raise ValueError(f"speculative_config: CopyHeadProposer needs a head that copies ('{spec}' given); use ngram")
    if not head.remembers:
        return
    if vllm_config.model_config.enable_prompt_embeds:
        raise ValueError(f"enable_prompt_embeds: must be off with head '{spec}', which reads the tokens of the prompt")
    graphs = vllm_config.compilation_config.cudagraph_mode
    if graphs is not None and graphs.has_full_cudagraphs():
        raise ValueError(
            f"cudagraph_mode: must be PIECEWISE or NONE with head '{spec}', whose sizes change in every pass; start "
            'with --compilation-config \'{"cudagraph_mode": "PIECEWISE"}\''
        )
