"""A corpus written into a folder with its order, as a whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Int, UInt

from nextword.retrieval.ngram.manifest import MANIFEST, NAMES, ORDER, STARTS, STREAM, TextManifest
from nextword.retrieval.ngram.suffix_order import expect_sorter, sorted_places, token_bytes
from nextword.retrieval.shard import write_array
from nextword.runtime.disk import disk_full_explained
from nextword.runtime.files import write_atomically
from nextword.runtime.lock import locked
from nextword.settings.setting_names import named

UNFINISHED = ".building"
"""Folder inside the memory's own where files lie until all of them are complete."""

BETWEEN = 0
"""Stands before, between and after documents; token ``t`` is stored as ``t + 1``."""

_FILES = (STREAM, ORDER, STARTS, NAMES)
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Document:
    """A text whose tokens are stored.

    Attributes:
        name: What reports call it.
        ids: Its tokens.
    """

    name: str
    ids: Sequence[int] | Int[np.ndarray, "T"]


def build_text_memory(
    documents: Iterable[Document],
    out: str | Path,
    *,
    vocab_size: int,
    tokenizer: str,
    data: Sequence[str],
    command: str = "nextword text-memory build",
) -> TextManifest:
    """Stores documents, and sorts their places by the tokens before them.

    A build that is stopped leaves nothing that could be read, and begins again. A folder that holds the same corpus is
    left as it is. Sorting takes 5 times the bytes of the tokens in memory (2 or 3 bytes a token).

    Args:
        documents: Texts as tokens; read once, so they may be more than fit into memory.
        out: Folder to write.
        vocab_size: Tokens are below this.
        tokenizer: Fingerprint of the tokenizer.
        data: Where the documents are from.
        command: What the owner of the folder does, for others that want to write to it.

    Raises:
        ValueError: No token, a token outside the vocabulary, too many tokens, or a folder that holds another corpus.
        DiskFullError: There is no room.
    """
    expect_sorter()
    out = Path(out)
    with locked(out, command):
        if (out / MANIFEST).exists():
            return _same(TextManifest.of(out), out, vocab_size, tokenizer, data)
        unfinished = out / UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            with disk_full_explained(out):
                unfinished.mkdir()
                corpus = _write_stream(documents, unfinished, vocab_size)
                _write_order(unfinished, corpus, token_bytes(vocab_size))
                for name in _FILES:
                    (unfinished / name).replace(out / name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        manifest = TextManifest(
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            data=list(data),
            documents=corpus.documents,
            empty=corpus.empty,
            tokens=corpus.tokens,
            places=corpus.tokens - corpus.documents,
        )
        manifest.save(out / MANIFEST)
    return manifest


def _same(found: TextManifest, out: Path, vocab_size: int, tokenizer: str, data: Sequence[str]) -> TextManifest:
    """What is there already, where it is what was asked for."""
    given = {"tokenizer": tokenizer, "vocab_size": vocab_size, "data": list(data)}
    changed = [name for name, value in given.items() if getattr(found, name) != value]
    if changed:
        said = "; ".join(f"{name} was {getattr(found, name)}, is {given[name]}" for name in changed)
        raise ValueError(f"{out}: must be empty or hold the same corpus ({said}); give another {named('out')}")
    return found


@dataclass(frozen=True)
class _Corpus:
    tokens: int
    documents: int
    empty: int

    @property
    def length(self) -> int:
        return self.tokens + self.documents + 1


def _write_stream(documents: Iterable[Document], folder: Path, vocab_size: int) -> _Corpus:
    """The tokens of all documents, last one first, where each document begins, and what it is called."""
    stored = np.dtype(np.uint16 if token_bytes(vocab_size) == 2 else np.uint32)
    starts: list[int] = []
    names: list[str] = []
    empty, length = 0, 1
    forward = folder / "forward"
    with forward.open("wb") as file:
        _put(file, np.full(1, BETWEEN, dtype=stored))
        for document in documents:
            ids = np.asarray(document.ids, dtype=np.int64)
            if not len(ids):
                empty += 1
                continue
            _expect_tokens(ids, vocab_size, document.name)
            _put(file, np.append(ids + 1, BETWEEN).astype(stored))
            starts.append(length)
            names.append(document.name)
            length += len(ids) + 1
    if length - 1 == 2 * len(starts):  # nothing comes after anything
        raise ValueError(
            f"data: must have a document of two tokens or more ({len(starts):,} of one and {empty:,} empty ones "
            "given); give some text"
        )
    _reverse(forward, folder / STREAM, stored, length)
    forward.unlink()
    write_array(folder / STARTS, np.array(starts, dtype=np.int64))
    write_atomically(folder / NAMES, json.dumps(names, ensure_ascii=False))
    return _Corpus(length - 1 - len(starts), len(starts), empty)


def _put(file: IO[bytes], tokens: UInt[np.ndarray, "T"]) -> None:
    file.write(tokens.tobytes())


def _expect_tokens(ids: Int[np.ndarray, "T"], vocab_size: int, name: str) -> None:
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab_size:
        raise ValueError(
            f"{name}: must have tokens from 0 to {vocab_size - 1} ({low if low < 0 else high} given); is the tokenizer "
            "the model's?"
        )


def _reverse(source: Path, target: Path, stored: np.dtype, length: int) -> None:
    forward = np.memmap(source, dtype=stored, mode="r", shape=(length,))
    backward = _on_disk(target, stored, length)
    for begin in range(0, length, _AT_ONCE):
        part = forward[begin : begin + _AT_ONCE]
        backward[length - begin - len(part) : length - begin] = part[::-1]
    backward.flush()


def _on_disk(path: Path, stored: np.dtype, length: int) -> np.memmap:
    """A new file as an array, with room taken on the disk: where a mapped file finds none, the process is killed."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=stored, shape=(length,))
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _write_order(folder: Path, corpus: _Corpus, width: int) -> None:
    """The places that have a token there and one after it, sorted."""
    stream = np.load(folder / STREAM, mmap_mode="r")
    places = corpus.tokens - corpus.documents
    order = _on_disk(folder / ORDER, np.dtype(np.uint32), places)
    done = 0
    for part in sorted_places(stream, width):
        # what comes next in a document comes before in the stream, which runs backwards
        kept = part[(stream[part] != BETWEEN) & (stream[np.maximum(part - 1, 0)] != BETWEEN)]
        order[done : done + len(kept)] = kept
        done += len(kept)
    assert done == places
    order.flush()
