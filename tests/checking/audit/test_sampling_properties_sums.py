from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.checking.audit.sampling_properties import compensated_sum, sum_tolerance


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 50257])
def test_compensated_sum_is_that_of_exact_arithmetic(size: int) -> None:
    torch.manual_seed(size)
    values = torch.randn(3, size, dtype=torch.float64) * 10.0 ** torch.randint(-12, 12, (3, size))
    for row, found in zip(values.tolist(), compensated_sum(values).tolist(), strict=True):
        exact = math.fsum(row)
        assert abs(found - exact) <= 2**-52 * abs(exact) + 2**-100 * math.fsum(abs(one) for one in row)


@pytest.mark.parametrize("vocabulary", [2, 60, 50257])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_right_softmaxes_are_within_the_tolerance(vocabulary: int, scale: float) -> None:
    torch.manual_seed(0)
    scores = torch.randn(64, vocabulary) * scale - 100
    for dtype in (torch.float32, torch.float64):
        log_probs = scores.to(dtype).log_softmax(-1)
        off = (compensated_sum(log_probs.double().exp()) - 1).abs().max()
        assert off <= sum_tolerance(dtype, dtype, vocabulary)
    # one term after the other, the worst order there is
    one = scores[0].numpy()
    total = np.float32(0)
    for term in np.exp(one - one.max()):
        total += term
    naive = torch.from_numpy(one - one.max() - np.log(total))
    assert abs(float(compensated_sum(naive.double().exp())) - 1) <= sum_tolerance(
        torch.float32, torch.float32, vocabulary
    )


def test_half_precision_is_excused_for_what_it_cannot_hold_only() -> None:
    torch.manual_seed(0)
    log_probs = torch.randn(64, 1000).log_softmax(-1)
    handed_over = (compensated_sum(log_probs.bfloat16().double().exp()) - 1).abs().max()
    assert handed_over <= sum_tolerance(torch.bfloat16, torch.float32, 1000)
    assert handed_over > 10 * sum_tolerance(torch.float32, torch.float32, 1000)


def test_the_sentence_says_where_the_excess_is() -> None:
    def cached(prefixes: list[list[int]]) -> torch.Tensor:
        probabilities = torch.full((len(prefixes), 20), 1 / 20)
        for row, prefix in zip(probabilities, prefixes, strict=True):
            row[sorted(set(prefix))] += 0.1
        return probabilities.log()

    (found,) = nw.check(cached, vocabulary=20, lengths=[6]).findings
    assert found.fault == "sum"
    assert "in total; the excess is on tokens seen before" in found.sentence
    assert found.shown.startswith("position 1 assigns 1.1 in total")
    assert [len(text) for text in found.texts] == [1]
