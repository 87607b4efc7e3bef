"""The order of a corpus: its places sorted by the tokens before them, the last one first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import TypeVar

import numpy as np
from jaxtyping import Int, UInt, UInt8

from nextword.runtime.optional_libraries import install, missing

Result = TypeVar("Result")

LIBRARY, EXTRA = "pydivsufsort", "text-memory"

LARGEST = 2**31 - 1
"""Bytes that are sorted with 4-byte places; more would take 8 bytes for each of them in memory."""

_AT_ONCE = 1 << 22


def expect_sorter() -> None:
    """Passes where places can be sorted.

    Raises:
        ValueError: The library that does it is missing.
    """
    if missing([LIBRARY]):
        raise ValueError(f"text memory: must have {LIBRARY} to sort a corpus (not installed); {install(EXTRA)}")


def token_bytes(vocab_size: int) -> int:
    """Bytes that a token takes while it is sorted, those of the mark between documents included.

    >>> token_bytes(65_535), token_bytes(65_536)
    (2, 3)
    """
    return max(2, -(-int(vocab_size).bit_length() // 8))


def sorted_places(stream: UInt[np.ndarray, "M"], width: int) -> Iterator[Int[np.ndarray, "_"]]:
    """All places of a stream of tokens in the order of what begins there, some at a time.

    The order is that of libdivsufsort over the bytes of the tokens, the most significant one first: among places where
    a token begins it is the order of the tokens.

    Args:
        stream: Tokens.
        width: Bytes of each, as ``token_bytes`` says.

    Raises:
        ValueError: The stream is too long, or the sorter is missing.
    """
    expect_sorter()
    if len(stream) * width > LARGEST:
        raise ValueError(
            f"data: must be at most {LARGEST // width:,} tokens for this vocabulary ({len(stream):,} given); build "
            "several memories"
        )
    from pydivsufsort import divsufsort

    order = _interruptible(partial(divsufsort, _big_endian(stream, width)))
    for begin in range(0, len(order), _AT_ONCE):
        part = order[begin : begin + _AT_ONCE]
        yield part[part % width == 0] // width


def _interruptible(work: Callable[[], Result]) -> Result:
    """What the work gives, in a thread of its own: Ctrl-C is heard while it goes on, and does not wait for it."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as problem:
            done.set_exception(problem)

    Thread(target=run, daemon=True).start()
    return done.result()


def _big_endian(stream: UInt[np.ndarray, "M"], width: int) -> UInt8[np.ndarray, "_"]:
    made = np.empty((len(stream), width), dtype=np.uint8)
    for begin in range(0, len(stream), _AT_ONCE):
        part = np.ascontiguousarray(stream[begin : begin + _AT_ONCE], dtype=">u4")
        made[begin : begin + len(part)] = part.view(np.uint8).reshape(-1, 4)[:, 4 - width :]
    return made.reshape(-1)
