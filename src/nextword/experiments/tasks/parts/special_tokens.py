"""Special tokens of the tokenizers that are made here, and their wrapping for transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

END, PAD, UNKNOWN = "<eos>", "<pad>", "<unk>"


def for_transformers(
    tokenizer: Tokenizer, unknown: str | None = None, mask: str | None = None
) -> PreTrainedTokenizerFast:
    """The tokenizer as transformers knows it; ``<eos>`` stands before a text and ends it, ``<pad>`` fills."""
    from transformers import PreTrainedTokenizerFast

    make: Any = PreTrainedTokenizerFast  # its constructor has no annotations
    wrapped: PreTrainedTokenizerFast = make(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=PAD, unk_token=unknown, mask_token=mask
    )
    return wrapped
