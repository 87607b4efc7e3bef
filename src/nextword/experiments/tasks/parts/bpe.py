"""Byte-level BPE trained on a text and kept in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nextword.experiments.tasks.parts.special_tokens import END, PAD, for_transformers
from nextword.results.records import write_atomically
from nextword.runtime.corpora import lines as lines_of
from nextword.runtime.pretrained import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SMALLEST_VOCABULARY = 258
"""The 256 bytes and two special tokens."""


def trained_tokenizer(
    text: str, vocabulary: int, cache: Path | None, mask: str | None = None
) -> PreTrainedTokenizerBase:
    """Byte-level BPE of ``vocabulary`` tokens; read from ``cache`` where this text and size were trained before.

    Bytes are the base alphabet, so that no character is unknown and every text can be scored. ``mask`` is one more
    special token.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    special = [END, PAD, *([mask] if mask is not None else [])]
    smallest = SMALLEST_VOCABULARY + len(special) - 2
    if vocabulary < smallest:
        raise ValueError(f"task.vocabulary: must be at least {smallest}, bytes and special tokens ({vocabulary} given)")
    masked = "" if mask is None else f"{mask}/"
    key = hashlib.sha256(f"bpe/{masked}{vocabulary}/{text}".encode()).hexdigest()[:16]
    path = None if cache is None else cache / f"bpe-{vocabulary}-{key}.json"
    if path is not None and path.is_file():
        tokenizer = Tokenizer.from_file(str(path))
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(lines_of(text), trainer)
        if path is not None:
            write_atomically(path, tokenizer.to_str())
    return for_transformers(tokenizer, mask=mask)


def named_or_trained(
    name: str | None, text: Callable[[], str], vocabulary: int, cache: str | None, mask: str | None = None
) -> PreTrainedTokenizerBase:
    """The tokenizer that ``task.tokenizer`` names, or one trained on a text.

    Args:
        name: Path or hub name; None: trained.
        text: Gives the text to train on.
        vocabulary: Its number of tokens.
        cache: Folder in which it is kept.
        mask: One more special token of it.
    """
    if name is not None:
        return load_tokenizer(name, "task.tokenizer")
    return trained_tokenizer(text(), vocabulary, None if cache is None else Path(cache), mask)
