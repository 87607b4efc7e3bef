from __future__ import annotations

import torch

from nextword.functional.probability import inverse_cumulative
from nextword.inference.generation.row_sampling import RowSampler, batch_seed, stream_key, uniform_numbers

SCORES = torch.tensor([[1.0, -torch.inf, 0.0, 2.0, -1.0], [0.0, 0.0, -torch.inf, -torch.inf, 3.0]])


def drawn(uniform: torch.Tensor, scores: torch.Tensor, begin: int = 3, step: int = 0) -> torch.Tensor:
    ids = torch.zeros(len(scores), begin + step, dtype=torch.long)
    return RowSampler(uniform, begin)(ids, scores)


def test_tokens_come_as_often_as_their_probability_says():
    draws = 40_000
    uniform = uniform_numbers(range(draws), 1)
    for scores in SCORES:
        tokens = drawn(uniform, scores.expand(draws, -1)).argmax(-1)
        seen = torch.bincount(tokens, minlength=5).double()
        expected = scores.double().softmax(-1) * draws
        possible = expected > 0
        assert seen[~possible].sum() == 0
        # chi-square with at most 3 degrees of freedom: 16.3 is passed by chance once in a thousand
        assert ((seen - expected)[possible] ** 2 / expected[possible]).sum() < 16.3


def test_one_token_of_each_row_is_left_and_its_score_is_finite():
    left = drawn(uniform_numbers([1, 2], 1), SCORES)
    assert torch.isfinite(left).sum(-1).tolist() == [1, 1]


def test_a_row_in_which_nothing_is_possible_stays_as_it_is():
    scores = SCORES.clone()
    scores[0] = -torch.inf
    left = drawn(uniform_numbers([1, 2], 1), scores)
    assert (left[0] == -torch.inf).all()
    assert torch.isfinite(left[1]).sum() == 1


def test_what_a_row_draws_does_not_depend_on_the_rows_beside_it():
    uniform = uniform_numbers([7, 8, 9], 5)
    scores = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    for step in range(5):
        together = drawn(uniform, scores, step=step).argmax(-1)
        alone = [drawn(uniform[[row]], scores[[row]], step=step).argmax(-1) for row in (2, 0, 1)]
        assert together.tolist() == [int(alone[1]), int(alone[2]), int(alone[0])]


def test_asking_again_at_one_step_draws_the_same():
    sampler = RowSampler(uniform_numbers([7], 5), 3)
    ids, scores = torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 50)
    assert torch.equal(sampler(ids, scores), sampler(ids, scores))


def test_ends_of_the_numbers_choose_the_first_and_the_last_possible_token():
    cumulative = torch.tensor([[0.0, 0.25, 1.0, 1.0]], dtype=torch.float64)
    largest = 1 - 2**-53
    assert inverse_cumulative(cumulative, torch.tensor([0.0], dtype=torch.float64)).item() == 1
    assert inverse_cumulative(cumulative, torch.tensor([largest], dtype=torch.float64)).item() == 2


def test_keys_and_seeds_are_of_all_their_parts():
    keys = {stream_key(seed, content, sample) for seed in (0, 1) for content in ([1, 2], [12]) for sample in (0, 1)}
    assert len(keys) == 8
    assert batch_seed([1, 2]) != batch_seed([2, 1])
    assert 0 <= batch_seed(list(keys)) < 2**63
