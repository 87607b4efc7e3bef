"""Sums of a model's scores for each bootstrap unit (such as a text) and each group of tokens of a ``Breakdown``.

The sums of consecutive chunks of texts can be added, so the scores of single tokens need not be kept.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nextword.evaluation.metrics.statistics import Statistic
from nextword.inference.scoring.breakdowns import Breakdown
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.scored_texts import ScoredText

TOKENS = "tokens"
"""Key of the digest of the tokens in ``BlockSums.digests``. The other keys are those of breakdowns."""


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Sums over the tokens of U consecutive units (see ``Units``).

    Attributes:
        first: Number of the first unit, from 0.
        nats: Negative log-likelihood of each unit, in nats.
        tokens: Number of tokens of each unit.
        text_bytes: Number of UTF-8 bytes of each unit's tokens.
        groups: Mapping from the key of each breakdown to the nats and the number of tokens in each unit and group.
        impossible: Mapping from the key of each breakdown to the number of tokens with probability 0 in each group.
        names: Mapping from the key of each breakdown to the names of its G groups.
        digests: Mapping from ``TOKENS`` to a digest of all tokens, and from the key of each breakdown to a digest of
            the tokens' groups.
        cut_sources: Number of texts with a source that is too long for the encoder.
        prompts: Number of texts with a prompt.
    """

    first: int
    nats: Float[np.ndarray, "U"]
    tokens: Int[np.ndarray, "U"]
    text_bytes: Int[np.ndarray, "U"]
    groups: dict[str, Float[np.ndarray, "U _G 2"]]
    impossible: dict[str, Int[np.ndarray, "_G"]]
    names: dict[str, tuple[str, ...]]
    digests: dict[str, str]
    cut_sources: int
    prompts: int

    @classmethod
    def none(cls, units: int, breakdowns: Sequence[Breakdown]) -> BlockSums:
        """Makes sums that are all 0, for ``units`` units and the groups of ``breakdowns``."""
        sizes = {one.key: len(one.names) for one in breakdowns}
        return cls(
            first=0,
            nats=np.zeros(units),
            tokens=np.zeros(units, dtype=np.int64),
            text_bytes=np.zeros(units, dtype=np.int64),
            groups={key: np.zeros((units, size, 2)) for key, size in sizes.items()},
            impossible={key: np.zeros(size, dtype=np.int64) for key, size in sizes.items()},
            names={one.key: one.names for one in breakdowns},
            digests=dict.fromkeys((TOKENS, *sizes), ""),
            cut_sources=0,
            prompts=0,
        )

    @classmethod
    def of(
        cls,
        texts: Sequence[ScoredText],
        log_probs: Sequence[Float[np.ndarray, "_T"]],
        unit: Int[np.ndarray, "N"],
        breakdowns: Sequence[Breakdown],
    ) -> BlockSums:
        """Makes the sums of consecutive ``texts`` from the ``log_probs`` of the tokens of each text.

        ``unit`` is the index of the unit of each of the N tokens in ``texts``.
        """
        first = int(unit.min())
        place, units = unit - first, int(unit.max()) - first + 1
        ids = np.concatenate([text.target for text in texts])
        nats = 0.0 - np.concatenate(list(log_probs))
        codes = {one.key: np.concatenate([one.codes(text) for text in texts]) for one in breakdowns}
        sizes = {one.key: len(one.names) for one in breakdowns}
        return cls(
            first=first,
            nats=np.bincount(place, nats, units),
            tokens=np.bincount(place, minlength=units),
            text_bytes=np.bincount(place, np.concatenate([text.text_bytes for text in texts]), units).astype(np.int64),
            groups={key: _by_group(place, nats, one, (units, sizes[key])) for key, one in codes.items()},
            impossible={key: np.bincount(one[np.isinf(nats)], minlength=sizes[key]) for key, one in codes.items()},
            names={one.key: one.names for one in breakdowns},
            digests={key: _digest(one.astype(np.int64).tobytes()) for key, one in {TOKENS: ids, **codes}.items()},
            cut_sources=sum(text.source_is_cut for text in texts),
            prompts=sum(len(text.prompt) > 0 for text in texts),
        )

    def plus(self, other: BlockSums) -> BlockSums:
        """Adds the sums of ``other``, whose units are some of the units of this object.

        Returns a new object, so that an interruption never leaves half-updated sums.
        """
        rows = slice(other.first - self.first, other.first - self.first + len(other.nats))
        return BlockSums(
            first=self.first,
            nats=_added(self.nats, rows, other.nats),
            tokens=_added(self.tokens, rows, other.tokens),
            text_bytes=_added(self.text_bytes, rows, other.text_bytes),
            groups={key: _added(one, rows, other.groups[key]) for key, one in self.groups.items()},
            impossible={key: one + other.impossible[key] for key, one in self.impossible.items()},
            names=self.names,
            digests={key: _digest((one + other.digests[key]).encode()) for key, one in self.digests.items()},
            cut_sources=self.cut_sources + other.cut_sources,
            prompts=self.prompts + other.prompts,
        )

    @property
    def impossible_tokens(self) -> int:
        """Number of tokens with probability 0."""
        return int(next(iter(self.impossible.values())).sum())

    def nll(self) -> Statistic:
        """Negative log-likelihood per token, in nats."""
        return Statistic.ratio(self.nats, self.tokens.astype(np.float64))

    def bits_per_byte(self) -> Statistic:
        """Negative log-likelihood per UTF-8 byte of text, in bits."""
        return Statistic.ratio(self.nats / math.log(2), self.text_bytes.astype(np.float64))

    def perplexity(self) -> Statistic:
        """``exp`` of nats per token."""
        return Statistic.ratio(self.nats, self.tokens.astype(np.float64), np.exp)

    def of_groups(self, key: str) -> dict[str, Statistic]:
        """Mapping from each group of the breakdown ``key`` to its nats per token, without groups that have no token."""
        sums = self.groups[key]
        return {
            name: Statistic.ratio(sums[:, code, 0], sums[:, code, 1])
            for code, name in enumerate(self.names[key])
            if sums[:, code, 1].any()
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Mapping from name, such as ``nats`` or ``groups.KEY`` (breakdown ``KEY``), to array, for a checkpoint."""
        single = {name: getattr(self, name) for name in ("nats", "tokens", "text_bytes")}
        many = {f"{name}.{key}": one for name in ("groups", "impossible") for key, one in getattr(self, name).items()}
        return single | many

    def rest(self) -> dict[str, Any]:
        """Mapping from name to value of all attributes that are not in ``arrays``, for a checkpoint in JSON."""
        return {name: getattr(self, name) for name in ("first", "names", "digests", "cut_sources", "prompts")}

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], rest: Mapping[str, Any]) -> BlockSums:
        """Makes the object again from what its methods ``arrays`` and ``rest`` returned."""
        names = {key: tuple(one) for key, one in rest["names"].items()}
        many = {name: {key: arrays[f"{name}.{key}"] for key in names} for name in ("groups", "impossible")}
        single = {name: arrays[name] for name in ("nats", "tokens", "text_bytes")}
        return cls(**{**rest, **single, **many, "names": names})


def _by_group(
    unit: Int[np.ndarray, "N"], nats: Float[np.ndarray, "N"], codes: Int[np.ndarray, "N"], shape: tuple[int, int]
) -> Float[np.ndarray, "U G 2"]:
    cells, size = unit * shape[1] + codes, shape[0] * shape[1]
    sums = np.bincount(cells, nats, size), np.bincount(cells, minlength=size)
    return np.stack([one.reshape(shape).astype(np.float64) for one in sums], axis=-1)


def _added(whole: np.ndarray, rows: slice, part: np.ndarray) -> np.ndarray:
    found = whole.copy()
    found[rows] += part
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# -- The units that intervals and tests resample: texts, or pieces of texts. They are the same for every model.

FEWEST_TEXTS = 20
"""Minimum number of texts at which each text is a unit. Fewer texts are cut into pieces, which are the units."""

PIECE = 1024
"""UTF-8 bytes of a piece, about 200 words. Bytes are used because they do not depend on the tokenizer."""

MOST_UNITS = 16_384
"""Maximum number of units. If there are more texts or pieces, neighbours are joined, so that memory does not grow with
the text. More units would not make the interval more precise."""


@dataclass(frozen=True)
class Units:
    """Bootstrap units: texts, groups of neighbouring texts, or pieces of texts.

    Attributes:
        joined: Number of texts per unit; 1 if the units are pieces.
        piece: Number of bytes per piece; None if the units are texts.
        begins: Index of the first piece of each text, then the total number of pieces; empty if the units are texts.
    """

    name: str
    count: int
    joined: int
    piece: int | None
    begins: tuple[int, ...]

    @classmethod
    def of(cls, given: GivenTexts) -> Units:
        """Chooses the units of the texts ``given``: texts if there are at least ``FEWEST_TEXTS``, otherwise pieces."""
        if given.texts >= FEWEST_TEXTS:
            joined = -(-given.texts // MOST_UNITS)
            name = "texts" if joined == 1 else f"blocks of {joined:,} texts"
            return cls(name, -(-given.texts // joined), joined, None, ())
        piece = PIECE
        while sum(_pieces(given, piece)) > MOST_UNITS:
            piece *= 2
        begins = np.concatenate([[0], np.cumsum(_pieces(given, piece))])
        return cls(f"pieces of {piece:,} bytes", int(begins[-1]), 1, piece, tuple(begins.tolist()))

    def of_tokens(self, number: int, text: ScoredText) -> Int[np.ndarray, "T"]:
        """Index of the unit of each token of ``text``, which is the text with index ``number``.

        A token belongs to the piece in which it ends.
        """
        if self.piece is None:
            return np.full(len(text.ends), number // self.joined)
        inside: Int[np.ndarray, "T"] = np.maximum(text.ends - 1, 0) // self.piece
        return self.begins[number] + inside


def _pieces(given: GivenTexts, piece: int) -> list[int]:
    return [-(-size // piece) for size in given.sizes]
