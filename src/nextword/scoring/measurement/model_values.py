"""Sums over the tokens of one model, by unit and by group, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nextword.metrics.parts.intervals import Interval, bootstrap_intervals
from nextword.metrics.parts.statistic import Statistic
from nextword.records.measured_values import MetricValue
from nextword.records.score_results import GroupScore
from nextword.scoring.breakdowns.breakdown import Breakdown
from nextword.scoring.measurement.interval_units import Units
from nextword.scoring.measurement.scored_texts import ScoredText

UNITS = {
    "perplexity": "per token (of the model's tokenizer)",
    "nll": "nats per token (of the model's tokenizer)",
    "bits_per_byte": "bits per byte (UTF-8)",
}
LARGEST = math.log(np.finfo(np.float64).max)
"""Nats per token beyond which a perplexity is too large for a number."""


@dataclass(frozen=True, eq=False)
class TokenColumns:
    """All tokens of all texts of one model, one after the other.

    Attributes:
        ids: The tokens.
        nats: Negative log-likelihood of each.
        text_bytes: UTF-8 bytes that each covers.
        unit: What each is drawn with.
        units: How many units there are.
        codes: By key of a breakdown, the group of each.
        breakdowns: What the codes mean.
    """

    ids: Int[np.ndarray, "N"]
    nats: Float[np.ndarray, "N"]
    text_bytes: Int[np.ndarray, "N"]
    unit: Int[np.ndarray, "N"]
    units: int
    codes: dict[str, Int[np.ndarray, "N"]]
    breakdowns: tuple[Breakdown, ...]

    @classmethod
    def of(
        cls,
        texts: Sequence[ScoredText],
        log_probs: Sequence[Float[np.ndarray, "T"]],
        units: Units,
        breakdowns: Sequence[Breakdown],
    ) -> TokenColumns:
        """From the texts and the log-probability of each of their tokens."""
        return cls(
            ids=np.concatenate([text.target for text in texts]),
            nats=0.0 - np.concatenate(list(log_probs)),
            text_bytes=np.concatenate([text.text_bytes for text in texts]),
            unit=np.concatenate([units.of_tokens(number, text) for number, text in enumerate(texts)]),
            units=units.count,
            codes={one.key: np.concatenate([one.codes(text) for text in texts]) for one in breakdowns},
            breakdowns=tuple(breakdowns),
        )

    @property
    def impossible(self) -> int:
        """Tokens of probability 0."""
        return int(np.isinf(self.nats).sum())

    def nll(self) -> Statistic:
        """Nats per token."""
        return Statistic.ratio(self._sums(self.nats), self._sums())

    def bits_per_byte(self) -> Statistic:
        """Bits per byte."""
        return Statistic.ratio(self._sums(self.nats / math.log(2)), self._sums(self.text_bytes))

    def perplexity(self) -> Statistic:
        """``exp`` of nats per token."""
        return Statistic.ratio(self._sums(self.nats), self._sums(), np.exp)

    def groups(self, key: str) -> dict[str, Statistic]:
        """Nats per token of each group of a breakdown that has tokens, by its name."""
        names = next(one.names for one in self.breakdowns if one.key == key)
        codes = self.codes[key]
        cells = self.unit * len(names) + codes
        shape = (self.units, len(names))
        nats = np.bincount(cells, self.nats, self.units * len(names)).reshape(shape)
        counts = np.bincount(cells, minlength=self.units * len(names)).reshape(shape)
        return {
            name: Statistic.ratio(nats[:, code], counts[:, code].astype(np.float64))
            for code, name in enumerate(names)
            if counts[:, code].any()
        }

    def _sums(self, weights: np.ndarray | None = None) -> Float[np.ndarray, "U"]:
        return np.bincount(self.unit, weights, self.units).astype(np.float64)


def values(columns: TokenColumns) -> tuple[dict[str, MetricValue], dict[str, str]]:
    """Perplexity, nats per token and bits per byte with intervals, and why one of them is no number."""
    statistics = {"perplexity": columns.perplexity(), "nll": columns.nll(), "bits_per_byte": columns.bits_per_byte()}
    number, total = columns.impossible, len(columns.nats)
    if number:
        have = "token has" if number == 1 else "tokens have"
        return {}, dict.fromkeys(statistics, f"infinite, because {number:,} of {total:,} {have} probability 0")
    undefined = {}
    if statistics["nll"].value > LARGEST:
        del statistics["perplexity"]
        undefined["perplexity"] = f"exp({statistics['nll'].value:,.0f}) is too large for a number"
    counts = {"perplexity": total, "nll": total, "bits_per_byte": int(columns.text_bytes.sum())}
    with np.errstate(over="ignore"):
        intervals = bootstrap_intervals(list(statistics.values()))
    found = {
        key: _value(statistic.value, UNITS[key], counts[key], interval)
        for (key, statistic), interval in zip(statistics.items(), intervals, strict=True)
    }
    return found, undefined


def group_scores(columns: TokenColumns) -> dict[str, list[GroupScore]]:
    """The groups of every breakdown, those that have tokens."""
    whole = math.fsum(columns.nats)
    statistics = {(key, name): one for key in columns.codes for name, one in columns.groups(key).items()}
    finite = {place: one for place, one in statistics.items() if np.isfinite(one.parts).all()}
    intervals = dict(zip(finite, bootstrap_intervals(list(finite.values())), strict=True))
    found: dict[str, list[GroupScore]] = {key: [] for key in columns.codes}
    for (key, name), statistic in statistics.items():
        nats, count = statistic.parts.sum(axis=0)
        names = next(one.names for one in columns.breakdowns if one.key == key)
        impossible = int(np.isinf(columns.nats[columns.codes[key] == names.index(name)]).sum())
        low, high = intervals.get((key, name)) or (None, None)
        possible = not impossible
        found[key].append(
            GroupScore(
                group=name,
                tokens=int(count),
                nats=float(nats) if possible else None,
                share_of_nats=float(nats) / whole if 0 < whole < math.inf else None,
                nll=float(nats / count) if possible else None,
                low=low,
                high=high,
                impossible=impossible,
            )
        )
    return found


def _value(value: float, unit: str, n: int, interval: Interval) -> MetricValue:
    low, high = interval or (None, None)
    return MetricValue(value=value, unit=unit, n=n, low=low, high=high)
