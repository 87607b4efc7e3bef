"""The values of one model, of all tokens and by group, with their intervals."""

from __future__ import annotations

import math

import numpy as np

from nextword.evaluation.metrics.parts.intervals import Interval, bootstrap_intervals
from nextword.inference.scoring.measurement.unit_sums import UnitSums
from nextword.results.records.measured_values import MetricValue
from nextword.results.records.score_results import GroupScore

UNITS = {
    "perplexity": "per token (of the model's tokenizer)",
    "nll": "nats per token (of the model's tokenizer)",
    "bits_per_byte": "bits per byte (UTF-8)",
}
LARGEST = math.log(np.finfo(np.float64).max)
"""Nats per token beyond which a perplexity is too large for a number."""


def values(sums: UnitSums) -> tuple[dict[str, MetricValue], dict[str, str]]:
    """Perplexity, nats per token and bits per byte with intervals, and why one of them is no number."""
    statistics = {"perplexity": sums.perplexity(), "nll": sums.nll(), "bits_per_byte": sums.bits_per_byte()}
    number, total = sums.impossible_tokens, int(sums.tokens.sum())
    if number:
        have = "token has" if number == 1 else "tokens have"
        return {}, dict.fromkeys(statistics, f"infinite, because {number:,} of {total:,} {have} probability 0")
    undefined = {}
    if statistics["nll"].value > LARGEST:
        del statistics["perplexity"]
        undefined["perplexity"] = f"exp({statistics['nll'].value:,.0f}) is too large for a number"
    counts = {"perplexity": total, "nll": total, "bits_per_byte": int(sums.text_bytes.sum())}
    with np.errstate(over="ignore"):
        intervals = bootstrap_intervals(list(statistics.values()))
    found = {
        key: _value(statistic.value, UNITS[key], counts[key], interval)
        for (key, statistic), interval in zip(statistics.items(), intervals, strict=True)
    }
    return found, undefined


def group_scores(sums: UnitSums) -> dict[str, list[GroupScore]]:
    """The groups of every breakdown, those that have tokens."""
    whole = math.fsum(sums.nats)
    statistics = {(key, name): one for key in sums.groups for name, one in sums.of_groups(key).items()}
    finite = {place: one for place, one in statistics.items() if np.isfinite(one.parts).all()}
    intervals = dict(zip(finite, bootstrap_intervals(list(finite.values())), strict=True))
    found: dict[str, list[GroupScore]] = {key: [] for key in sums.groups}
    for (key, name), statistic in statistics.items():
        nats, count = statistic.parts.sum(axis=0)
        impossible = int(sums.impossible[key][sums.names[key].index(name)])
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
