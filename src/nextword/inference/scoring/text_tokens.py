"""Tokenises whole texts, with the bytes of each token."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from nextword.runtime.corpora import gathered
from nextword.runtime.corpora import lines as lines_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


Span = tuple[int, int]
"""Character span of a token: begin and end."""

PIECE = 1 << 16
"""Number of characters encoded at a time, because encoding takes hundreds of bytes per token and delays Ctrl-C."""

OVERLAP = 1 << 10
"""Number of characters that two neighbouring pieces of a long text have in common."""

AGREEING = 8
"""Number of tokens in which two pieces must agree where they are joined."""


def ids_and_spans(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N 2"]]:
    """Returns the token ids of a whole text, without special tokens, and the character span of each token.

    A long text is encoded in overlapping pieces, which are joined near the middle of their overlap, where both pieces
    have the same tokens. If the pieces have no such tokens, the text is encoded as a whole.
    """
    done_ids, done_spans = array("q"), array("q")  # lists of Python numbers need ten times the memory
    ids, spans = _encoded(tokenizer, text[:PIECE], 0)
    for end in range(PIECE, len(text), PIECE):
        more_ids, more_spans = _encoded(tokenizer, text[end - OVERLAP : end + PIECE], end - OVERLAP)
        left, right = _seam(ids, spans, more_ids, more_spans, end - OVERLAP // 2)
        if right is None:
            done_ids, done_spans = array("q"), array("q")
            ids, spans = _encoded(tokenizer, text, 0)
            break
        done_ids.extend(ids[:left])
        done_spans.extend(chain.from_iterable(spans[:left]))
        ids, spans = more_ids[right:], more_spans[right:]
    done_ids.extend(ids)
    done_spans.extend(chain.from_iterable(spans))
    # the same numbers: numpy's type for these arrays is long long, and the view gives it the name int64
    return np.asarray(done_ids).view(np.int64), np.asarray(done_spans).view(np.int64).reshape(-1, 2)


def whole_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> Int[np.ndarray, "N"]:
    """Returns the token ids of a whole text, without special tokens. A fast tokenizer encodes a long text in pieces."""
    if len(text) > PIECE and tokenizer.is_fast:
        return ids_and_spans(tokenizer, text)[0]
    return np.array(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=np.int64)


def _encoded(tokenizer: Any, text: str, begin: int) -> tuple[list[int], list[Span]]:
    made = tokenizer(
        text,
        add_special_tokens=False,
        return_offsets_mapping=True,
        verbose=False,  # no warning about texts longer than the model; the caller decides what to do with them
    )
    return list(made["input_ids"]), [(int(first) + begin, int(last) + begin) for first, last in made["offset_mapping"]]


def _seam(
    ids: list[int], spans: list[Span], more_ids: list[int], more_spans: list[Span], middle: int
) -> tuple[int, int | None]:
    """The first position in each piece, after a character, from which several tokens in a row are the same in both."""
    left = bisect_left(spans, (middle, middle))
    for right in range(bisect_left(more_spans, (middle, middle)), len(more_ids)):
        while left < len(ids) and spans[left] < more_spans[right]:
            left += 1
        if left + AGREEING > len(ids):
            break
        here, there = slice(left, left + AGREEING), slice(right, right + AGREEING)
        if spans[here] == more_spans[there] and ids[here] == more_ids[there]:
            return left, right
    return left, None


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str, limit: int | None = None) -> list[int]:
    """The first ``limit`` ids of a text, without special tokens. ``None``: all ids.

    The text is encoded line by line, because one long string would be slow.
    """
    tokens = (
        token
        for some in gathered(lines_of(text), PIECE)
        for ids in tokenizer(some, add_special_tokens=False)["input_ids"]
        for token in ids
    )
    return list(islice(tokens, limit))


def expect_offsets(tokenizer: PreTrainedTokenizerBase, lacking: str = "bytes cannot be counted") -> None:
    """Raises ValueError if a tokenizer has no offsets. ``lacking`` is the consequence in the message."""
    if not tokenizer.is_fast:
        raise ValueError(
            f"tokenizer '{tokenizer.name_or_path}' has no offsets (it is a slow one), so {lacking}. Use its fast "
            "version."
        )


def ids_and_bytes(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], Int[np.ndarray, "N"]]:
    """Ids of a text, and the number of UTF-8 bytes of each token. The numbers sum to the bytes of the text.

    The text is encoded line by line. Some tokenizers drop characters, for instance line ends. The bytes of these
    characters count for the next token, or at the end for the last token, so that no byte of the text is left out.

    Raises:
        ValueError: If the tokenizer has no offsets, or the text has no tokens.
    """
    expect_offsets(tokenizer)
    ids: list[int] = []
    ends: list[int] = []
    line_begin = 0
    for lines in gathered(lines_of(text), PIECE):
        encoded = tokenizer(lines, add_special_tokens=False, return_offsets_mapping=True)
        for line, line_ids, offsets in zip(lines, encoded["input_ids"], encoded["offset_mapping"], strict=True):
            ids += line_ids
            ends += [line_begin + end for _, end in offsets]
            line_begin += len(line)
    if not ids:
        raise ValueError(f"tokenizer '{tokenizer.name_or_path}' makes no tokens of the text")
    return ids, np.diff(byte_ends(text, np.array(ends)), prepend=0)


def byte_ends(text: str, ends: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    """End of each token in UTF-8 bytes, given ``ends`` in characters. An end below 0 marks a special token.

    Characters that the tokenizer drops belong to the next token, or at the end to the last token. If several tokens
    form one character, all of them end where the character ends, so that the first one has all bytes of the character.
    """
    before = bytes_before(text)
    found: Int[np.ndarray, "N"] = np.maximum.accumulate(before[np.maximum(ends, 0)])
    found[-1] = before[-1]
    return found


def bytes_before(text: str) -> Int[np.ndarray, "M"]:
    """Number of UTF-8 bytes before each character of a text, and as the last entry the bytes of the whole text."""
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    sizes = sum((code >= first).astype(np.uint8) for first in (0x80, 0x800, 0x10000)) + np.uint8(1)
    found = np.zeros(len(code) + 1, dtype=np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


# -- Prompts and answers as token ids.


def start_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Returns the id of the start token of every text: the bos token of ``tokenizer``, or if it has none the eos token.

    Raises:
        ValueError: If the tokenizer has neither.
    """
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise ValueError(f"tokenizer '{tokenizer.name_or_path}' has neither a bos nor an eos token; set one of them")


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Ids of the start token and the prompt."""
    return [start_id(tokenizer), *tokenizer(prompt, add_special_tokens=False)["input_ids"]]


def encode_answer(tokenizer: PreTrainedTokenizerBase, prompt: str, word: str) -> list[int]:
    """Token ids of ``word`` after ``prompt`` and a space; several if the tokenizer splits the word.

    Raises:
        ValueError: If the tokenizer merges the word with the prompt, so that the word cannot be predicted.
    """
    alone = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    together = tokenizer(f"{prompt} {word}", add_special_tokens=False)["input_ids"]
    if together[: len(alone)] != alone or len(together) == len(alone):
        raise ValueError(f"tokenizer '{tokenizer.name_or_path}': '{word}' gets no tokens of its own after '{prompt}'")
    answer: list[int] = together[len(alone) :]
    return answer
