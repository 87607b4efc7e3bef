from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from nextword.functional.streamed.overwrite import overwrite

N, V, K = 5, 9, 4


def case(seed: int, share: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(N, V, generator=generator, dtype=torch.float64)
    ids = torch.stack([torch.randperm(V, generator=generator)[:K] for _ in range(N)])
    values = torch.randn(N, K, generator=generator, dtype=torch.float64)
    return scores, ids, values, torch.rand(N, K, generator=generator) < share


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.7, 1.0]))
def test_is_an_assignment_of_what_is_present(seed: int, share: float) -> None:
    scores, ids, values, present = case(seed, share)
    expected = scores.clone()
    for n in range(N):
        for k in range(K):
            if present[n, k]:
                expected[n, ids[n, k]] = values[n, k]
    given = scores.clone()
    found = overwrite(given, ids, values, present)
    assert torch.equal(found, expected)
    assert found.data_ptr() == given.data_ptr()  # in place


def test_gradients() -> None:
    scores, ids, values, present = case(0, 0.6)
    present[2] = False
    inputs = scores.requires_grad_(), values.requires_grad_()
    assert torch.autograd.gradcheck(lambda s, v: overwrite(s * 1.0, ids, v, present).exp(), inputs)
    overwrite(scores * 1.0, ids, values, present).sum().backward()
    written = torch.zeros(N, V, dtype=torch.float64).scatter_add(1, ids, present.double())
    assert torch.equal(scores.grad, 1 - written)
    assert torch.equal(values.grad, present.double())


def test_absent_columns_may_hold_any_token_twice() -> None:
    ids, present = torch.tensor([[3, 0, 0, 0]]), torch.tensor([[True, False, False, False]])
    scores = torch.zeros(1, V, requires_grad=True)
    values = torch.tensor([[5.0, 6.0, 7.0, 8.0]])
    found = overwrite(scores * 1.0, ids, values, present)
    assert found.tolist() == [[0, 0, 0, 5, 0, 0, 0, 0, 0]]
    found.sum().backward()
    assert scores.grad.tolist() == [[1, 1, 1, 0, 1, 1, 1, 1, 1]]


def test_no_column_at_all() -> None:
    scores, nothing = torch.randn(2, V), torch.zeros(2, 0)
    assert torch.equal(overwrite(scores.clone(), nothing.long(), nothing, nothing.bool()), scores)


def test_infinite_scores_stay_where_they_are_not_overwritten() -> None:
    scores = torch.tensor([[-torch.inf, 1.0, -torch.inf]])
    found = overwrite(scores, torch.tensor([[0, 0]]), torch.tensor([[2.0, 9.0]]), torch.tensor([[False, False]]))
    assert found.tolist() == [[-torch.inf, 1.0, -torch.inf]]
