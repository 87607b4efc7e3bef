"""Pretrained tokenizers, by folder or hub name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(name: str, where: str) -> PreTrainedTokenizerBase:
    """The tokenizer of that folder or hub name.

    Args:
        name: The folder, or the name.
        where: The setting that names it, for messages.

    Raises:
        ValueError: There is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as fault:
        raise ValueError(f"{where}: cannot load '{name}': {' '.join(str(fault).split())}") from None
    return found
