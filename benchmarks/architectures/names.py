"""Which architectures there are: what transformers itself lists, and nothing by hand."""

from __future__ import annotations

from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

KINDS = {
    "decoder-only": tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    "encoder-decoder": tuple(MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
}
"""Kind to the model types that ``AutoModelForCausalLM`` and ``AutoModelForSeq2SeqLM`` know."""


def architectures() -> list[tuple[str, str]]:
    """Every kind and name."""
    return [(kind, name) for kind, names in KINDS.items() for name in names]
