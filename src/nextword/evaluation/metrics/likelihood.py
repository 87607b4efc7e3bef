"""Negative log-likelihood, perplexity and bits per byte, from sums over texts that are divided only at the end.

Only ``mean_perplexity`` is a mean of the texts' values (He, Chen and Kim, 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.sample import AllOrNone, Sample
from nextword.evaluation.metrics.statistics import Interval, bootstrap_ratio

ABOVE_ZERO = 1e-6
"""Largest log-probability above 0 that counts as a rounding error. A larger one is an error in the samples."""


def perplexities(nats: Float[np.ndarray, "N"], tokens: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """Perplexity of each text, (N,): exp of its negative log-likelihood ``nats`` divided by its number of ``tokens``.

    The result is NaN for a text without tokens, and inf for a perplexity too large for a float. He, Chen and Kim (2020,
    section 4.3) report the mean over texts ("average perplexities of all article-summary pairs"). For texts of equal
    length this mean is never below the corpus perplexity, and the few texts with the highest perplexity dominate it.

    >>> perplexities(np.log([8.0, 9.0]), np.array([3.0, 2.0])).round(6).tolist()
    [2.0, 3.0]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found: Float[np.ndarray, "N"] = np.where(tokens > 0, np.exp(nats / tokens), np.nan)
    return found


@dataclass
class LikelihoodSum:
    """Sums over blocks of scored text, where the nats of a block are its negative log-likelihood.

    nll = (sum of nats) / (number of tokens). perplexity = exp(nll), which depends on the tokenizer.
    bits per byte = (sum of nats) / (ln 2 * number of UTF-8 bytes), which can be compared between tokenizers.

    >>> total = LikelihoodSum()
    >>> total.add(nats=4 * math.log(2), tokens=4, text_bytes=8)
    >>> round(total.perplexity(), 6), total.bits_per_byte()
    (2.0, 0.5)
    """

    _nats: list[float] = field(default_factory=list)
    _tokens: list[int] = field(default_factory=list)
    _bytes: list[int] = field(default_factory=list)

    def add(self, nats: float, tokens: int, text_bytes: int) -> None:
        """Add one block: its summed negative log-likelihood ``nats``, number of scored tokens, and number of bytes."""
        if tokens < 0 or text_bytes < 0 or math.isnan(nats):
            raise ValueError(
                f"likelihood: tokens, bytes and nats of a block must be 0 or more and finite ({tokens} tokens, "
                f"{text_bytes} bytes, {nats} nats given)"
            )
        self._nats.append(nats)
        self._tokens.append(tokens)
        self._bytes.append(text_bytes)

    @property
    def tokens(self) -> int:
        """Number of scored tokens."""
        return sum(self._tokens)

    @property
    def texts(self) -> int:
        """Number of blocks with a scored token."""
        return sum(tokens > 0 for tokens in self._tokens)

    @property
    def bytes(self) -> int:
        """Number of UTF-8 bytes of the scored text."""
        return sum(self._bytes)

    def nll(self) -> float:
        """Negative log-likelihood per token, in nats."""
        if self.tokens == 0:
            raise ValueError("likelihood: must have at least one scored token (none given)")
        return math.fsum(self._nats) / self.tokens

    def perplexity(self) -> float:
        """Exponential of ``nll``. It is inf if it is too large for a float."""
        nll = self.nll()
        return math.exp(nll) if nll < math.log(np.finfo(np.float64).max) else math.inf

    def bits_per_byte(self) -> float:
        """Negative log-likelihood per UTF-8 byte, in bits."""
        if self.bytes == 0:
            raise ValueError("likelihood: must have at least one byte of text for bits per byte (none given)")
        return math.fsum(self._nats) / (math.log(2) * self.bytes)

    def mean_perplexity(self) -> float:
        """Mean perplexity of the blocks with a token. It is inf if one of the perplexities is too large for a float."""
        self.nll()  # raises an error for a sum without tokens
        return float(np.nanmean(self._perplexities()))

    def mean_perplexity_interval(self) -> Interval:
        """95 % bootstrap interval of ``mean_perplexity``, over blocks. None if the mean is inf."""
        each = self._perplexities()
        each = each[~np.isnan(each)]
        return bootstrap_ratio(each, np.ones(len(each))) if np.isfinite(each).all() else None

    def _perplexities(self) -> Float[np.ndarray, "N"]:
        return perplexities(np.array(self._nats), np.array(self._tokens, dtype=np.float64))

    def nll_interval(self) -> Interval:
        """95 % bootstrap interval of ``nll``, over blocks."""
        return bootstrap_ratio(self._nats, self._tokens)

    def perplexity_interval(self) -> Interval:
        """95 % bootstrap interval of ``perplexity``, over blocks."""
        return bootstrap_ratio(self._nats, self._tokens, np.exp)

    def bits_per_byte_interval(self) -> Interval:
        """95 % bootstrap interval of ``bits_per_byte``, over blocks."""
        return bootstrap_ratio(np.array(self._nats) / math.log(2), self._bytes)


class LikelihoodMetricConfig(MetricConfig):
    """Settings of likelihood."""

    mean: bool = False
    """Whether to also report the mean of the samples' perplexities."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parse the argument of the spec ``likelihood:mean``."""
        if arguments not in ([], ["mean"]):
            raise ValueError(f"must be followed by nothing or mean ({','.join(arguments)!r} given)")
        return {"mean": True} if arguments else {}

    def arguments(self) -> list[str]:
        """The argument "mean" if ``mean`` is true."""
        return ["mean"] if self.mean else []


@registry.register("likelihood")
class LikelihoodMetric(Metric):
    """Perplexity, negative log-likelihood and bits per byte of held-out tokens. Example: ``likelihood``."""

    Config = LikelihoodMetricConfig
    needs = ("log_probs",)
    votes = ("perplexity",)
    group, goal, decimals = metric.LIKELIHOOD, "lower", 3

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._nats: list[float] = []
        self._tokens: list[int] = []
        self._bytes: list[int] = []
        self._impossible = 0
        self._bytes_given = AllOrNone("target_bytes")

    def add(self, sample: Sample) -> None:
        """Read the log-probabilities of one sample's targets, and the number of bytes of the targets if it is given."""
        log_probs = np.array(sample.need("log_probs", "likelihood"), dtype=np.float64)
        wrong = np.flatnonzero(np.isnan(log_probs) | (log_probs > ABOVE_ZERO))
        if len(wrong):
            raise ValueError(
                f"{sample.place}: log_probs[{wrong[0]}] must be a number not above 0 ({log_probs[wrong[0]]} given)"
            )
        text_bytes = sample.target_bytes
        if self._bytes_given.has(sample, text_bytes is not None):
            if text_bytes is None or text_bytes < 0:
                raise ValueError(f"{sample.place}: target_bytes must be 0 or more ({text_bytes} given)")
            self._bytes.append(text_bytes)
        self._impossible += int(np.isneginf(log_probs).sum())
        self._nats.append(-float(log_probs.sum()))
        self._tokens.append(len(log_probs))

    def result(self) -> dict[str, Score]:
        """The scores ``perplexity`` and ``nll``, and two scores that may be absent.

        ``mean_perplexity`` needs the setting ``mean``, and ``bits_per_byte`` needs ``target_bytes`` in the samples.
        """
        tokens = sum(self._tokens)
        if self._impossible:
            raise UndefinedError(
                f"perplexity: {self._impossible} of {tokens} targets have probability 0, so it is infinite"
            )
        token = "per token (of the model's tokenizer)"
        nll = self.measure("NLL", f"nats {token}", "NLL: negative log-likelihood per token.")
        perplexity = self.measure(
            "perplexity",
            token,
            "Perplexity: exp of the negative log-likelihood per token; only comparable with the same tokenizer.",
            decimals=2,
        )
        mean_perplexity = self.measure(
            "mean perplexity",
            f"{token}, mean over texts",
            "Mean perplexity: the mean of the texts' perplexities, dominated by the texts with the highest perplexity.",
            decimals=2,
        )
        bits_per_byte = self.measure(
            "bits per byte",
            "bits per byte (UTF-8, of the targets)",
            "Bits per byte: negative log-likelihood in bits divided by the bytes of the text; comparable between "
            "tokenizers.",
        )
        of_nll = Score.ratio(nll, self._nats, self._tokens)
        if of_nll.value > math.log(np.finfo(np.float64).max):
            raise UndefinedError(f"perplexity: exp({of_nll.value:g}) is too large for a float")
        found = {"perplexity": Score.ratio(perplexity, self._nats, self._tokens, np.exp), "nll": of_nll}
        nats = np.array(self._nats, dtype=np.float64)
        if self.config.mean:
            each = perplexities(nats, np.array(self._tokens, dtype=np.float64))
            if np.isfinite(each[~np.isnan(each)]).all():  # otherwise one is too large for a float, although nll is not
                found["mean_perplexity"] = Score.mean(mean_perplexity, each)
        if self._bytes:
            found["bits_per_byte"] = Score.ratio(bits_per_byte, nats / math.log(2), self._bytes)
        return found
