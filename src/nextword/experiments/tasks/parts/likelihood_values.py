"""A summed likelihood as measured numbers with units and intervals."""

from __future__ import annotations

import math

from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.evaluation.metrics.parts.intervals import Interval
from nextword.results.records import MetricValue


def likelihood_values(total: LikelihoodSum, token: str = "token", text: str | None = None) -> dict[str, MetricValue]:
    """``nll``, ``bits_per_byte`` and, where it is a number, ``perplexity``.

    Args:
        total: The sum; intervals are over its blocks.
        token: What a token is one of, for units: "target token".
        text: What the bytes are of; None: the text itself.
    """
    of = "" if text is None else f" of {text}"
    values = {
        "nll": measured_value(total.nll(), f"nats per {token}", total.tokens, total.nll_interval()),
        "bits_per_byte": measured_value(
            total.bits_per_byte(), f"bits per UTF-8 byte{of}", total.bytes, total.bits_per_byte_interval()
        ),
    }
    # A perplexity too large for a float is left out; nll says the same and is there.
    if math.isfinite(total.perplexity()):
        unit = f"per {token} of this tokenizer"
        values["perplexity"] = measured_value(total.perplexity(), unit, total.tokens, total.perplexity_interval())
    return values


def mean_perplexity(total: LikelihoodSum, token: str, texts: str) -> dict[str, MetricValue]:
    """``mean_perplexity``, the mean of the perplexities of the blocks, where it is a number.

    Args:
        total: The sum; each block is one text.
        token: What a token is one of, for the unit.
        texts: What the blocks are, for the unit: "articles".
    """
    value = total.mean_perplexity()
    if not math.isfinite(value):
        return {}
    unit = f"per {token} of this tokenizer, mean over {texts}"
    return {"mean_perplexity": measured_value(value, unit, total.texts, total.mean_perplexity_interval())}


def measured_value(value: float, unit: str, n: int, interval: Interval) -> MetricValue:
    """A number with its interval, where that has two ends."""
    low, high = interval if interval is not None and all(map(math.isfinite, interval)) else (None, None)
    return MetricValue(value=value, unit=unit, n=n, low=low, high=high)
