"""Negative log-likelihood, perplexity and bits per byte from streamed blocks; sums are divided once, at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from nextword.metrics.intervals import bootstrap_ratio

Interval = tuple[float, float] | None


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

    def nll_interval(self) -> Interval:
        """95 % bootstrap interval over blocks."""
        return bootstrap_ratio(np.array(self._nats), np.array(self._tokens, dtype=np.float64))

    def perplexity_interval(self) -> Interval:
        """95 % bootstrap interval over blocks."""
        return bootstrap_ratio(np.array(self._nats), np.array(self._tokens, dtype=np.float64), np.exp)

    def bits_per_byte_interval(self) -> Interval:
        """95 % bootstrap interval over blocks."""
        return bootstrap_ratio(np.array(self._nats) / math.log(2), np.array(self._bytes, dtype=np.float64))
