from __future__ import annotations

import math

import pytest

from nextword.metrics.likelihood import LikelihoodSum


def test_by_hand_and_sums_are_divided_once() -> None:
    total = LikelihoodSum()
    total.add(nats=10.0, tokens=1, text_bytes=2)
    total.add(nats=2.0, tokens=5, text_bytes=18)
    assert total.nll() == pytest.approx(2.0)  # the mean of means would be 5.2
    assert total.perplexity() == pytest.approx(math.e**2)
    assert total.bits_per_byte() == pytest.approx(12 / (20 * math.log(2)))
    assert (total.tokens, total.bytes) == (6, 20)
    low, high = total.perplexity_interval()
    assert low <= total.perplexity() <= high
    assert high <= math.exp(10.0) * 1.0001


def test_uniform_over_the_bytes() -> None:
    total = LikelihoodSum()
    total.add(nats=100 * math.log(256), tokens=100, text_bytes=100)
    assert total.perplexity() == pytest.approx(256)
    assert total.bits_per_byte() == pytest.approx(8)
    assert total.nll_interval() is None


def test_impossible_text_is_infinite_not_an_error() -> None:
    total = LikelihoodSum()
    total.add(nats=math.inf, tokens=3, text_bytes=3)
    assert total.perplexity() == math.inf


def test_errors() -> None:
    with pytest.raises(ValueError, match="no token was scored"):
        LikelihoodSum().nll()
    with pytest.raises(ValueError, match="no byte was scored"):
        LikelihoodSum().bits_per_byte()
    with pytest.raises(ValueError, match="makes no sense"):
        LikelihoodSum().add(nats=math.nan, tokens=1, text_bytes=1)
