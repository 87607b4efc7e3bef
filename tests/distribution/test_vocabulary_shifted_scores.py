"""A vocabulary whose scores each sequence shifts: the same answers as a loop over rows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.distribution import (
    Add,
    Replace,
    Rerank,
    Shifted,
    SoftmaxDistribution,
    TokenLogitEdit,
    UniqueTokens,
    WordScores,
)
from nextword.heads.context import Layout
from tests.helpers.contexts import LinearVocabulary

B, D, V = 3, 4, 11
ROW = torch.tensor([0, 0, 1, 2, 2, 2, 0])
N = len(ROW)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass
class Case:
    states: Tensor
    weight: Tensor
    bias: Tensor
    shift: Tensor

    @property
    def shifted(self) -> Shifted:
        return Shifted(LinearVocabulary(self.weight, self.bias), self.shift, ROW)

    @property
    def expected(self) -> Tensor:
        """Row after row."""
        return torch.stack(
            [self.weight @ state + self.bias + self.shift[own] for state, own in zip(self.states, ROW, strict=True)]
        )

    @property
    def leaves(self) -> list[Tensor]:
        return [self.states, self.weight, self.bias, self.shift]


@pytest.fixture
def case() -> Case:
    made = [randn(N, D), randn(V, D, seed=1), randn(V, seed=2), randn(B, V, seed=3)]
    return Case(*(each.requires_grad_() for each in made))


def same(case: Case, ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    weights = randn(*ours.shape, seed=7)
    found, expected = (torch.autograd.grad((each * weights).sum(), case.leaves) for each in (ours, theirs))
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_every_token(case: Case) -> None:
    assert case.shifted.size == V
    same(case, case.shifted(case.states), case.expected)


@pytest.mark.parametrize("rows", [slice(2, 5), torch.tensor([6, 2, 2, 0])])
def test_some_rows(case: Case, rows: slice | Tensor) -> None:
    same(case, case.shifted.map(lambda own: own[rows])(case.states[rows]), case.expected[rows])


def test_few_tokens(case: Case) -> None:
    ids = torch.stack([torch.randperm(V, generator=torch.Generator().manual_seed(n))[:4] for n in range(N)])
    more = torch.stack([case.states, 2 * case.states], 1)
    twice = torch.stack([case.expected, case.expected + case.states @ case.weight.T], 1)
    expected = twice.gather(2, ids[:, None].expand(-1, 2, -1))
    same(case, case.shifted.scores_of(more, ids), expected)


def test_groups_of_tokens(case: Case) -> None:
    rows = [torch.tensor([6, 3, 0]), torch.tensor([], dtype=torch.long), torch.tensor([1, 2, 4, 5])]
    groups = [torch.tensor([10, 0]), torch.tensor([3]), torch.tensor([5, 2, 9])]
    found = case.shifted.scores_of_groups([case.states[own] for own in rows], groups, rows)
    assert [tuple(scores.shape) for scores in found] == [(3, 2), (0, 1), (4, 3)]
    expected = [case.expected[own][:, group] for own, group in zip(rows, groups, strict=True)]
    same(case, torch.cat([scores.flatten() for scores in found]), torch.cat([each.flatten() for each in expected]))


def dense(case: Case) -> SoftmaxDistribution:
    """The same scores out of a plain vocabulary: the shift of every row as a state of its own."""
    own = torch.nn.functional.one_hot(ROW, B).double()
    return SoftmaxDistribution(
        LinearVocabulary(torch.cat([case.weight, case.shift.T], 1), case.bias), torch.cat([case.states, own], 1)
    )


def edits(wide: int) -> list[object]:
    """Some words replaced, some added to, some reranked."""
    ids = torch.stack([torch.randperm(V, generator=torch.Generator().manual_seed(20 + n))[:3] for n in range(N)])
    there = torch.ones(N, 3, dtype=torch.bool)
    words = [WordScores(UniqueTokens.of(ids, there), torch.arange(N), randn(N, 3, seed=seed), there) for seed in (8, 9)]
    states = torch.cat([randn(N, 2, D, seed=10), torch.zeros(N, 2, wide, dtype=torch.float64)], 2)
    return [
        TokenLogitEdit("a", words[0], Replace()),
        TokenLogitEdit("b", words[1], Add()),
        Rerank(states, (4, 2), Replace()),
    ]


@pytest.mark.parametrize("mebibytes", [64, 1e-4])
def test_distributions_with_edits(case: Case, mebibytes: float) -> None:
    """A state of zeros reads no shift in the plain form, so the reranker's are compared without one."""
    with nw.score_memory(mebibytes):
        for count in (0, 2):
            ours = SoftmaxDistribution(case.shifted, case.states, edits=edits(0)[:count])  # type: ignore[arg-type]
            plain = dense(case)
            theirs = SoftmaxDistribution(plain.vocabulary, plain.states, edits=edits(B)[:count])  # type: ignore[arg-type]
            same(case, ours.log_probs(), theirs.log_probs())
            same(case, ours[torch.tensor([5, 1])].log_probs(), theirs.log_probs()[[5, 1]])
            ids = torch.tensor([[4, 0]]).expand(N, -1)
            same(case, ours.log_prob(ids), theirs.log_probs()[:, [4, 0]])


def test_reranked_words_are_shifted_too(case: Case) -> None:
    ours = SoftmaxDistribution(case.shifted, case.states, edits=[edits(0)[2]])  # type: ignore[list-item]
    queries, expected = edits(0)[2].queries, case.expected.clone()  # type: ignore[attr-defined]
    for n in range(N):
        for state, size in zip(queries[n], (4, 2), strict=True):
            best = expected[n].argsort(descending=True)[:size]
            expected[n, best] = (case.weight @ state + case.bias + case.shift[ROW[n]])[best]
    torch.testing.assert_close(ours.dense(), expected, rtol=1e-12, atol=1e-12)


def test_whole_batches_of_states(case: Case) -> None:
    """As partitions ask: (B, Q, D) states of sequences laid out side by side, and words of each sequence."""
    ids = torch.tensor([[0, 5], [3, 1], [10, 2]])
    layout = Layout(torch.tensor([0, 0, 0, 1, 2, 2, 2]), B)
    order = torch.tensor([0, 1, 6, 2, 3, 4, 5])
    whole = Shifted(LinearVocabulary(case.weight, case.bias), case.shift, torch.arange(B))
    found = layout.unpack(whole.scores_of(layout.pack(case.states[order]), ids))
    same(case, found, case.expected[order].gather(1, ids[ROW[order]]))
