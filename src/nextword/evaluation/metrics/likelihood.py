"""Negative log-likelihood, perplexity and bits per byte from streamed blocks; sums are divided once, at the end.

One measure is a mean by definition: the mean perplexity of texts, as He, Chen and Kim (2020) report it.
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
"""What rounding may add to a log-probability; one further above 0 is none."""


def perplexities(nats: Float[np.ndarray, "N"], tokens: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """The perplexity of each text by itself: exp(its nats / its tokens).

    NaN without tokens, inf where it is too large for a float. Their mean is the "average perplexities of all
    article-summary pairs" of He, Chen and Kim 2020, section 4.3. It is never below the perplexity of the same texts
    taken together where all are of one length, and a few texts of high perplexity decide it.

    >>> perplexities(np.log([8.0, 9.0]), np.array([3.0, 2.0])).round(6).tolist()
    [2.0, 3.0]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found: Float[np.ndarray, "N"] = np.where(tokens > 0, np.exp(nats / tokens), np.nan)
    return found


@dataclass
class LikelihoodSum:
    """Sums over blocks of scored text.

    nll = (sum of nats) / (number of tokens); perplexity = exp(nll), per token of this tokenizer;
    bits per byte = (sum of nats) / (ln 2 * number of UTF-8 bytes), which two tokenizers can be compared by.

    >>> total = LikelihoodSum()
    >>> total.add(nats=4 * math.log(2), tokens=4, text_bytes=8)
    >>> round(total.perplexity(), 6), total.bits_per_byte()
    (2.0, 0.5)
    """

    _nats: list[float] = field(default_factory=list)
    _tokens: list[int] = field(default_factory=list)
    _bytes: list[int] = field(default_factory=list)

    def add(self, nats: float, tokens: int, text_bytes: int) -> None:
        """Adds one block: its summed negative log-likelihood, its scored tokens, and the bytes they cover."""
        if tokens < 0 or text_bytes < 0 or math.isnan(nats):
            raise ValueError(f"likelihood: a block of {tokens} tokens, {text_bytes} bytes, {nats} nats makes no sense")
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
        """Mean nats per token."""
        if self.tokens == 0:
            raise ValueError("likelihood: no token was scored")
        return math.fsum(self._nats) / self.tokens

    def perplexity(self) -> float:
        """Exponential of ``nll``; inf where that is too large for a float."""
        nll = self.nll()
        return math.exp(nll) if nll < math.log(np.finfo(np.float64).max) else math.inf

    def bits_per_byte(self) -> float:
        """Bits per UTF-8 byte."""
        if self.bytes == 0:
            raise ValueError("likelihood: no byte was scored")
        return math.fsum(self._nats) / (math.log(2) * self.bytes)

    def mean_perplexity(self) -> float:
        """Mean over blocks of the perplexity of each; inf where one is too large for a float."""
        self.nll()  # refuses a sum without tokens
        return float(np.nanmean(self._perplexities()))

    def mean_perplexity_interval(self) -> Interval:
        """95 % bootstrap interval over blocks."""
        each = self._perplexities()
        each = each[~np.isnan(each)]
        return bootstrap_ratio(each, np.ones(len(each))) if np.isfinite(each).all() else None

    def _perplexities(self) -> Float[np.ndarray, "N"]:
        return perplexities(np.array(self._nats), np.array(self._tokens, dtype=np.float64))

    def nll_interval(self) -> Interval:
        """95 % bootstrap interval over blocks."""
        return bootstrap_ratio(self._nats, self._tokens)

    def perplexity_interval(self) -> Interval:
        """95 % bootstrap interval over blocks."""
        return bootstrap_ratio(self._nats, self._tokens, np.exp)

    def bits_per_byte_interval(self) -> Interval:
        """95 % bootstrap interval over blocks."""
        return bootstrap_ratio(np.array(self._nats) / math.log(2), self._bytes)


class LikelihoodMetricConfig(MetricConfig):
    """Settings of likelihood."""

    mean: bool = False
    """Whether the mean of the samples' own perplexities is given too."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``likelihood:mean``."""
        if arguments not in ([], ["mean"]):
            raise ValueError(f"must be followed by nothing or mean ({','.join(arguments)!r} given)")
        return {"mean": True} if arguments else {}

    def arguments(self) -> list[str]:
        """The word where it is asked for."""
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
        """Reads the log-probabilities of one sample, and the bytes that its targets cover."""
        log_probs = np.array(sample.need("log_probs", "likelihood"), dtype=np.float64)
        wrong = np.flatnonzero(np.isnan(log_probs) | (log_probs > ABOVE_ZERO))
        if len(wrong):
            raise ValueError(
                f"{sample.place}: log_probs[{wrong[0]}] is {log_probs[wrong[0]]:g}; the logarithm of a probability is "
                "a number, and not above 0"
            )
        text_bytes = sample.target_bytes
        if self._bytes_given.has(sample, text_bytes is not None):
            if text_bytes is None or text_bytes < 0:
                raise ValueError(f"{sample.place}: target_bytes is {text_bytes}; it counts bytes, from 0")
            self._bytes.append(text_bytes)
        self._impossible += int(np.isneginf(log_probs).sum())
        self._nats.append(-float(log_probs.sum()))
        self._tokens.append(len(log_probs))

    def result(self) -> dict[str, Score]:
        """``perplexity``, ``nll``, on request ``mean_perplexity``, and ``bits_per_byte`` where samples have bytes."""
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
            "Mean perplexity: the mean of the texts' own perplexities; texts that surprise most decide it.",
            decimals=2,
        )
        bits_per_byte = self.measure(
            "bits per byte",
            "bits per byte (UTF-8, of the targets)",
            "Bits per byte: negative log-likelihood over the bytes of the text; comparable between tokenizers.",
        )
        of_nll = Score.ratio(nll, self._nats, self._tokens)
        if of_nll.value > math.log(np.finfo(np.float64).max):
            raise UndefinedError(f"perplexity: exp({of_nll.value:g}) is too large for a number")
        found = {"perplexity": Score.ratio(perplexity, self._nats, self._tokens, np.exp), "nll": of_nll}
        nats = np.array(self._nats, dtype=np.float64)
        if self.config.mean:
            each = perplexities(nats, np.array(self._tokens, dtype=np.float64))
            if np.isfinite(each[~np.isnan(each)]).all():  # else one is too large for a number, which nll is not
                found["mean_perplexity"] = Score.mean(mean_perplexity, each)
        if self._bytes:
            found["bits_per_byte"] = Score.ratio(bits_per_byte, nats / math.log(2), self._bytes)
        return found
