"""A whole text as token ids, with the bytes that each of them covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from nextword.corpora import lines as lines_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Ids of a text, encoded line by line (one long string would be slow), without special tokens."""
    lines = list(lines_of(text))
    return [token for ids in tokenizer(lines, add_special_tokens=False)["input_ids"] for token in ids] if lines else []


def ids_and_bytes(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], Int[np.ndarray, "N"]]:
    """Ids of a text and how many UTF-8 bytes of it each token covers; the counts add up to the text's bytes.

    What a tokenizer drops (some drop line ends) is counted with the token after it, and after the last one with the
    last: bits per byte divide by the text as it is, not by what the tokenizer kept.

    Raises:
        ValueError: The tokenizer cannot say which characters a token covers, or makes no tokens of the text.
    """
    if not tokenizer.is_fast:
        raise ValueError(
            f"tokenizer '{tokenizer.name_or_path}' has no offsets (it is a slow one), so bytes cannot be counted. "
            f"Use its fast version."
        )
    lines = list(lines_of(text))
    encoded = tokenizer(lines, add_special_tokens=False, return_offsets_mapping=True)
    ids: list[int] = []
    ends: list[int] = []
    line_begin = 0
    for line, line_ids, offsets in zip(lines, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        # ends_of[c]: bytes of the line before character c.
        ends_of = np.concatenate([[0], np.cumsum([len(character.encode()) for character in line])])
        ids += line_ids
        ends += [line_begin + int(ends_of[end]) for _, end in offsets]
        line_begin += int(ends_of[-1])
    if not ids:
        raise ValueError(f"tokenizer '{tokenizer.name_or_path}' makes no tokens of the text")
    ends[-1] = line_begin
    # Tokens that are parts of one character all end where it ends: the first of them gets its bytes.
    running = np.maximum.accumulate(np.array(ends, dtype=np.int64))
    return ids, np.diff(running, prepend=0)
