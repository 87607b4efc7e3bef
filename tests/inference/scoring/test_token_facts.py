"""What is asked of token facts at the edges; every head is held to its textbook form in tests/heads."""

from __future__ import annotations

import pytest
import torch

from nextword.distribution import SoftmaxDistribution
from nextword.inference.scoring.token_facts import token_facts
from tests.helpers.contexts import LinearVocabulary


def scores_of(rows: list[list[float]]) -> SoftmaxDistribution:
    """A softmax of these scores."""
    scores = torch.tensor(rows)
    return SoftmaxDistribution(LinearVocabulary(torch.eye(scores.shape[1])), scores)


def test_tokens_of_equal_probability_share_the_better_rank() -> None:
    facts = token_facts(scores_of([[1.0, 3.0, 3.0, 0.0]] * 4), torch.arange(4), candidates=2)
    assert facts.rank.tolist() == [3, 1, 1, 4]
    assert {tuple(sorted(row)) for row in facts.candidates.ids.tolist()} == {(1, 2)}
    assert facts.candidates.log_prob.dtype == facts.log_prob.dtype == "float64"


def test_large_scores_keep_their_digits() -> None:
    near = token_facts(scores_of([[1.0, 3.0, 2.0]]), torch.tensor([0]), candidates=1)
    far = token_facts(scores_of([[1e5 + 1.0, 1e5 + 3.0, 1e5 + 2.0]]), torch.tensor([0]), candidates=1)
    assert far.entropy == pytest.approx(near.entropy, abs=1e-6)
    assert far.log_prob == pytest.approx(near.log_prob, abs=0.01)  # float32 has no more digits at 100,000


def test_nothing_is_asked_of_nothing() -> None:
    facts = token_facts(scores_of([[1.0, 2.0]])[:0], torch.zeros(0, dtype=torch.long), candidates=1, positions=2)
    assert facts.log_prob.shape == facts.rank.shape == (0,)
    assert facts.candidates.ids.shape == (0, 1)
    assert facts.positions == {}
    alone = token_facts(scores_of([[1.0, 2.0]]), torch.tensor([1]))
    assert alone.candidates.ids.shape == alone.candidates.shares["softmax"].shape == (1, 0)


def test_what_is_out_of_range_is_refused() -> None:
    one = scores_of([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"candidates:.*\(3 given"):
        token_facts(one, torch.tensor([0]), candidates=3)
    with pytest.raises(ValueError, match=r"positions:.*\(-1 given"):
        token_facts(one, torch.tensor([0]), positions=-1)
    with pytest.raises(ValueError, match="token id 2 is outside"):
        token_facts(one, torch.tensor([2]))
    with pytest.raises(ValueError, match="ids: must be"):
        token_facts(one, torch.tensor([0, 1]))
