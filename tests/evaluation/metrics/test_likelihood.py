from __future__ import annotations

import math

import pytest
import torch

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.likelihood import LikelihoodSum
from tests.helpers.measuring import measured, values


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


def test_mean_perplexity_is_that_of_the_texts_one_by_one() -> None:
    """He, Chen and Kim 2020, section 4.3: the average of the perplexities of all pairs."""
    nats, tokens = [3 * math.log(2), 0.0, 2 * math.log(10)], [3, 0, 2]
    total = LikelihoodSum()
    for nat, count in zip(nats, tokens, strict=True):
        total.add(nat, count, count)
    assert total.mean_perplexity() == pytest.approx((2 + 10) / 2)
    assert total.perplexity() == pytest.approx(800**0.2)  # of the five tokens together
    low, high = total.mean_perplexity_interval()
    assert (low, high) == (pytest.approx(2), pytest.approx(10))
    assert total.texts == 2
    samples = [{"log_probs": [-nat / count] * count if count else []} for nat, count in zip(nats, tokens, strict=True)]
    score = measured("likelihood:mean", samples)["mean_perplexity"]
    assert (score.value, score.n) == (pytest.approx(6), 2)
    assert score.measure.unit == "per token (of the model's tokenizer), mean over texts"
    assert values("likelihood:mean", samples)["perplexity"] == pytest.approx(800**0.2)


def test_mean_perplexity_only_where_asked_for_and_a_number() -> None:
    assert "mean_perplexity" not in values("likelihood", [{"log_probs": [-1.0]}])
    assert set(values("likelihood:mean", [{"log_probs": [-1e3]}, {"log_probs": [-1.0] * 999}])) == {"perplexity", "nll"}
    total = LikelihoodSum()
    total.add(nats=1e3, tokens=1, text_bytes=1)
    total.add(nats=1.0, tokens=1, text_bytes=1)
    assert total.mean_perplexity() == math.inf
    assert total.mean_perplexity_interval() is None
    with pytest.raises(ValueError, match="at least one scored token"):
        LikelihoodSum().mean_perplexity()
    with pytest.raises(ValueError, match="'likelihood:means'"):
        values("likelihood:means", [])


def test_impossible_text_is_infinite_not_an_error() -> None:
    total = LikelihoodSum()
    total.add(nats=math.inf, tokens=3, text_bytes=3)
    assert total.perplexity() == math.inf


def test_errors() -> None:
    with pytest.raises(ValueError, match="at least one scored token"):
        LikelihoodSum().nll()
    with pytest.raises(ValueError, match="at least one byte"):
        LikelihoodSum().bits_per_byte()
    with pytest.raises(ValueError, match="must be 0 or more and finite"):
        LikelihoodSum().add(nats=math.nan, tokens=1, text_bytes=1)


def test_samples_against_cross_entropy() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = [torch.randn(length, 11, generator=generator, dtype=torch.float64) for length in (3, 1, 0, 7)]
    targets = [torch.randint(11, (len(rows),), generator=generator) for rows in logits]
    samples = [
        {"log_probs": rows.log_softmax(-1).gather(1, right[:, None])[:, 0].tolist(), "target_bytes": 4 * len(right)}
        for rows, right in zip(logits, targets, strict=True)
    ]
    nll = torch.nn.functional.cross_entropy(torch.cat(logits), torch.cat(targets)).item()
    scores = measured("likelihood", samples)
    assert scores["nll"].value == pytest.approx(nll, rel=1e-12)
    assert scores["perplexity"].value == pytest.approx(math.exp(nll), rel=1e-12)
    assert scores["bits_per_byte"].value == pytest.approx(nll / (4 * math.log(2)), rel=1e-12)
    assert {key: score.n for key, score in scores.items()} == {"perplexity": 11, "nll": 11, "bits_per_byte": 44}
    assert all(score.statistic is not None and len(score.statistic.parts) == 4 for score in scores.values())


def test_samples_give_the_same_as_blocks() -> None:
    total = LikelihoodSum()
    total.add(nats=10.0, tokens=1, text_bytes=2)
    total.add(nats=2.0, tokens=5, text_bytes=18)
    samples = [{"log_probs": [-10.0], "target_bytes": 2}, {"log_probs": [-0.4] * 5, "target_bytes": 18}]
    found = values("likelihood", samples)
    expected = {"perplexity": total.perplexity(), "nll": total.nll(), "bits_per_byte": total.bits_per_byte()}
    assert found == pytest.approx(expected)


def test_bytes_are_given_by_all_or_none() -> None:
    assert set(values("likelihood", [{"log_probs": [-1.0]}])) == {"perplexity", "nll"}
    units = {
        key: score.measure.unit
        for key, score in measured("likelihood", [{"log_probs": [-1.0], "target_bytes": 3}]).items()
    }
    # A terminal shows what stands before the bracket.
    assert units == {
        "perplexity": "per token (of the model's tokenizer)",
        "nll": "nats per token (of the model's tokenizer)",
        "bits_per_byte": "bits per byte (UTF-8, of the targets)",
    }
    with pytest.raises(MissingFieldError, match="'target_bytes'"):
        measured("likelihood", [{"log_probs": [-1.0], "target_bytes": 3}, {"log_probs": [-1.0]}])
    with pytest.raises(ValueError, match="line 1: target_bytes must be 0 or more"):
        measured("likelihood", [{"log_probs": [-1.0], "target_bytes": -3}])


def test_certain_targets() -> None:
    # Rounding may lift the logarithm of 1 a little above 0.
    assert values("likelihood", [{"log_probs": [0.0, 1e-7]}])["perplexity"] == pytest.approx(1.0)


def test_no_such_value() -> None:
    with pytest.raises(UndefinedError, match="probability"):
        measured("likelihood", [{"log_probs": [-1.0, -math.inf]}, {"log_probs": [-math.inf, -2.0]}])
    with pytest.raises(UndefinedError, match=r"exp\(800\) is too large"):
        measured("likelihood", [{"log_probs": [-800.0]}])
    for nothing in ([], [{"log_probs": []}]):
        with pytest.raises(UndefinedError, match="NLL: no sample has a value"):
            measured("likelihood", nothing)


@pytest.mark.parametrize(("wrong", "shown"), [(math.nan, "nan"), (0.01, "0.01"), (math.inf, "inf")])
def test_what_is_no_log_probability(wrong: float, shown: str) -> None:
    with pytest.raises(ValueError, match=rf"line 2: log_probs\[1\] must be a number not above 0 \({shown} given"):
        measured("likelihood", [{"log_probs": [-1.0]}, {"log_probs": [-1.0, wrong, wrong]}])
