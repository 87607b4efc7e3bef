"""Builds an n-gram index: writes a corpus and its sorted positions into a folder, atomically."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar

import numpy as np
from jaxtyping import Int, UInt, UInt8

from nextword.retrieval.ngram.manifest import MANIFEST, NAMES, ORDER, STARTS, STREAM, NgramManifest
from nextword.runtime.files import disk_full_explained, write_atomically
from nextword.runtime.optional_libraries import install, missing
from nextword.runtime.resumable import expect_same, locked
from nextword.runtime.shard_files import write_array

UNFINISHED = ".building"
"""Subfolder for files of an unfinished build."""

BETWEEN = 0
"""Number stored before, between and after documents. Token ``t`` is stored as ``t + 1``."""

_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Document:
    """A text whose tokens are stored."""

    name: str
    """Name in reports."""
    ids: Sequence[int] | Int[np.ndarray, "T"]


def build_ngram_index(
    documents: Iterable[Document],
    out: str | Path,
    *,
    vocab_size: int,
    tokenizer: str,
    data: Sequence[str],
    command: str = "nextword ngram build",
) -> NgramManifest:
    """Builds an n-gram index in ``out``: stores documents, and sorts all their positions by the tokens before them.

    A stopped build leaves no readable index, and starts from the beginning next time. A folder with the same corpus is
    not changed. Sorting needs memory of 5 times the size of the tokens (2 or 3 bytes per token).

    ``documents`` is read once, one document at a time; tokens must be below ``vocab_size``. ``tokenizer`` is the
    tokenizer's fingerprint, ``data`` the corpus's source for reports. Messages to other processes that want to write to
    the folder mention ``command``.

    Raises:
        ValueError: If there are no or too many tokens, a token is outside the vocabulary, the folder has another
            corpus, or pydivsufsort is missing.
        DiskFullError: If there is not enough disk space.
    """
    expect_sorter()
    out = Path(out)
    with locked(out, command):
        if (out / MANIFEST).exists():
            return _same(NgramManifest.of(out), out, vocab_size, tokenizer, data)
        unfinished = out / UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            with disk_full_explained(out):
                unfinished.mkdir()
                tokens, stored, empty = _write_stream(documents, unfinished, vocab_size)
                _write_order(unfinished, tokens - stored, token_bytes(vocab_size))
                for name in (STREAM, ORDER, STARTS, NAMES):
                    (unfinished / name).replace(out / name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        manifest = NgramManifest(
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            data=list(data),
            documents=stored,
            empty=empty,
            tokens=tokens,
            places=tokens - stored,
        )
        manifest.save(out / MANIFEST)
    return manifest


def _same(found: NgramManifest, out: Path, vocab_size: int, tokenizer: str, data: Sequence[str]) -> NgramManifest:
    given = {"tokenizer": tokenizer, "vocab_size": vocab_size, "data": list(data)}
    expect_same(out, "corpus", found.model_dump(include=set(given)), given)
    return found


def _write_stream(documents: Iterable[Document], folder: Path, vocab_size: int) -> tuple[int, int, int]:
    """Writes the tokens of all documents in reverse order, with the begin and name of each document.

    Returns:
        Numbers of tokens, of documents with tokens, and of empty documents.
    """
    stored = np.dtype(np.uint16 if token_bytes(vocab_size) == 2 else np.uint32)
    starts: list[int] = []
    names: list[str] = []
    empty, length = 0, 1
    forward = folder / "forward"
    with forward.open("wb") as file:
        file.write(np.full(1, BETWEEN, dtype=stored).tobytes())
        for document in documents:
            ids = np.asarray(document.ids, dtype=np.int64)
            if not len(ids):
                empty += 1
                continue
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= vocab_size:
                raise ValueError(
                    f"{document.name}: must have tokens from 0 to {vocab_size - 1} ({low if low < 0 else high} given); "
                    "is the tokenizer the model's?"
                )
            file.write(np.append(ids + 1, BETWEEN).astype(stored).tobytes())
            starts.append(length)
            names.append(document.name)
            length += len(ids) + 1
    if length - 1 == 2 * len(starts):  # every document has one token, so no token is followed by another one
        raise ValueError(
            f"data: must have a document of two tokens or more ({len(starts):,} of one and {empty:,} empty ones "
            "given); give some text"
        )
    _reverse(forward, folder / STREAM, stored, length)
    forward.unlink()
    write_array(folder / STARTS, np.array(starts, dtype=np.int64))
    write_atomically(folder / NAMES, json.dumps(names, ensure_ascii=False))
    return length - 1 - len(starts), len(starts), empty


def _reverse(source: Path, target: Path, stored: np.dtype, length: int) -> None:
    forward = np.memmap(source, dtype=stored, mode="r", shape=(length,))
    backward = _on_disk(target, stored, length)
    for begin in range(0, length, _AT_ONCE):
        part = forward[begin : begin + _AT_ONCE]
        backward[length - begin - len(part) : length - begin] = part[::-1]
    backward.flush()


def _on_disk(path: Path, stored: np.dtype, length: int) -> np.memmap:
    # Disk space is allocated first, because the process would be killed if a memory-mapped file had none.
    array = np.lib.format.open_memmap(path, mode="w+", dtype=stored, shape=(length,))
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _write_order(folder: Path, places: int, width: int) -> None:
    """Writes the sorted positions of all tokens that are followed by another token."""
    stream = np.load(folder / STREAM, mmap_mode="r")
    order = _on_disk(folder / ORDER, np.dtype(np.uint32), places)
    done = 0
    for part in sorted_positions(stream, width):
        # the stream is reversed, so the next token of a document is the previous one in the stream
        kept = part[(stream[part] != BETWEEN) & (stream[np.maximum(part - 1, 0)] != BETWEEN)]
        order[done : done + len(kept)] = kept
        done += len(kept)
    assert done == places
    order.flush()


# -- The order of a corpus: its positions sorted by the tokens before them, starting with the nearest token.

Result = TypeVar("Result")

LARGEST = 2**31 - 1
"""Maximum number of bytes that can be sorted with 4-byte positions; a larger corpus needs 8-byte positions."""


def expect_sorter() -> None:
    """Raises ValueError if the library that sorts positions is missing."""
    if missing(["pydivsufsort"]):
        how = install("ngram")
        raise ValueError(f"n-gram index: must have pydivsufsort to sort a corpus (not installed); {how}")


def token_bytes(vocab_size: int) -> int:
    """Bytes per token during sorting, at least 2. Token ids are increased by 1, because 0 separates documents.

    >>> token_bytes(65_535), token_bytes(65_536)
    (2, 3)
    """
    return max(2, -(-int(vocab_size).bit_length() // 8))


def sorted_positions(stream: UInt[np.ndarray, "M"], width: int) -> Iterator[Int[np.ndarray, "_"]]:
    """Yields all positions of ``stream`` in blocks, sorted by the tokens from each position to the end of the stream.

    libdivsufsort sorts the bytes of the tokens (``width`` bytes per token, the most significant first). Of its result,
    only the positions at which a token begins are kept; they are sorted by tokens.

    Raises:
        ValueError: If the stream is too long, or pydivsufsort is missing.
    """
    expect_sorter()
    if len(stream) * width > LARGEST:
        raise ValueError(
            f"data: must be at most {LARGEST // width:,} tokens for this vocabulary ({len(stream):,} given); build "
            "several indexes"
        )
    from pydivsufsort import divsufsort

    order = _interruptible(partial(divsufsort, _big_endian(stream, width)))
    for begin in range(0, len(order), _AT_ONCE):
        part = order[begin : begin + _AT_ONCE]
        yield part[part % width == 0] // width


def _interruptible(work: Callable[[], Result]) -> Result:
    # Sorting runs in its own thread, so that Ctrl-C works at once.
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
