"""Token counts of a vocabulary, with the fingerprint of its tokenizer."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from nextword.runtime.resumable import UNREADABLE, read_arrays, write_arrays

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


FORMAT = 1
"""Version of the file format; increased if older versions would misread the file."""

MAKES_IDS = ("normalizer", "pre_tokenizer", "model")
"""Parts of a fast tokenizer that determine the ids of a text, besides its vocabulary. Padding and truncation are
settings of single calls; decoding and special tokens do not change the ids."""


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Fingerprint (64 hex digits), equal for tokenizers that encode every text alike, also after saving and loading."""
    digest = hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[::-1])).encode())
    if tokenizer.is_fast:
        fast = json.loads(tokenizer.backend_tokenizer.to_str())
        digest.update(json.dumps({part: fast.get(part) for part in MAKES_IDS}, sort_keys=True).encode())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """Counts of all tokens of a vocabulary.

    Attributes:
        counts: Count of each token id.
        tokenizer: Fingerprint of the tokenizer; None if unknown.
        source: Origin of the counts, for reports.

    >>> counts = TokenCounts(np.array([3, 0, 2]), None, "a text")
    >>> counts.total, counts.distinct, counts.padded(5, "f2").counts.tolist()
    (5, 2, [3, 0, 2, 0, 0])
    """

    counts: Int[np.ndarray, "V"]
    tokenizer: str | None
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", checked(self.counts, "counts of tokens"))

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """Number of tokens that occur."""
        return int(np.count_nonzero(self.counts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the counts, fingerprint and source into a .npz file, atomically."""
        about = {"format": FORMAT, "tokenizer": self.tokenizer or "", "source": self.source}
        write_arrays(Path(path), {"counts": self.counts, **{name: np.array(value) for name, value in about.items()}})

    @classmethod
    def load(cls, path: str | os.PathLike[str], where: str = "counts") -> TokenCounts:
        """Reads a file written by ``save``, or a .npy file with one integer per token id.

        Args:
            path: The file.
            where: Name of the setting with this path, for error messages.

        Raises:
            ValueError: If the file does not exist, is incomplete, or has other content.
        """
        try:
            found = read_arrays(Path(path))
            if isinstance(found, np.ndarray):
                found = {"counts": found, "tokenizer": np.array(""), "source": np.array(Path(path).name)}
            counts, tokenizer, source = found["counts"], str(found["tokenizer"]), str(found["source"])
            version = int(found.get("format", FORMAT))
        except UNREADABLE as fault:
            why = f"no '{fault.args[0]}' in it" if isinstance(fault, KeyError) else fault
            if "Object arrays" in str(fault):
                why = "it holds Python objects, not numbers (an array of dtype object)"
            elif "pickle" in str(fault):  # numpy's assumption about any file that it does not know
                why = "it is neither a .npz nor a .npy file"
            raise ValueError(
                f"{where}: cannot read '{path}' as counts of tokens: {why}. Write them with nextword count, or as a "
                f".npy file of one whole number for each token id."
            ) from None
        if version > FORMAT:
            raise ValueError(f"{where}: '{path}' was written by a newer nextword; upgrade to read it")
        return cls(checked(counts, f"{where}: '{path}'"), tokenizer or None, source)

    def padded(self, size: int, where: str) -> TokenCounts:
        """The counts for a vocabulary of ``size`` tokens; additional ids get 0.

        Raises:
            ValueError: If a token that occurs has an id of ``size`` or more.
        """
        last = int(np.flatnonzero(self.counts)[-1])
        if last >= size:
            raise ValueError(
                f"{where}: token {last} occurs in the counts of {self.source}, but the model has {size} tokens. Do "
                f"tokenizer and model belong together?"
            )
        counts = np.zeros(size, dtype=np.int64)
        counts[: last + 1] = self.counts[: last + 1]
        return TokenCounts(counts, self.tokenizer, self.source)

    def expect_tokenizer(self, tokenizer: PreTrainedTokenizerBase, where: str) -> None:
        """Raises ValueError if the counts were made with another tokenizer; counts of an unknown tokenizer pass."""
        if self.tokenizer is None:
            return
        found = tokenizer_fingerprint(tokenizer)
        if found != self.tokenizer:
            name = tokenizer.name_or_path or type(tokenizer).__name__
            raise ValueError(
                f"{where}: the counts of {self.source} were made with another tokenizer ({self.tokenizer[:12]}) than "
                f"'{name}' ({found[:12]}). Count again with this tokenizer: nextword count."
            )


def checked(counts: Int[np.ndarray, "V"], what: str) -> Int[np.ndarray, "V"]:
    """The counts as int64; raises ValueError unless they are integers from 0, not all 0, with a sum in int64."""
    counts = np.asarray(counts)
    if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer):
        kind = f"{counts.dtype} of shape {counts.shape}"
        raise ValueError(f"{what} must be one list of whole numbers, the count of each token id ({kind} given)")
    if not len(counts) or counts.min() < 0 or not counts.any():
        raise ValueError(f"{what} must have counts from 0, and some above")
    largest = int(np.iinfo(np.int64).max)
    if int(counts.max()) * len(counts) > largest and sum(counts.tolist()) > largest:
        raise ValueError(f"{what} must not add up to more than {largest}")
    return counts.astype(np.int64)
