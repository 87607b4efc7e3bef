"""Functions that destroy their first argument, against torch's own softmax and a loop of assignments."""

from __future__ import annotations

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from nextword.functional.inplace import log_softmax_, overwrite_, softmax_at_
from nextword.functional.weight_gradient import FusedBackward

N, V, K = 6, 9, 4
IDS = torch.randint(0, V, (N, 3), generator=torch.Generator().manual_seed(1))
IDS[0] = 4  # asked for one token three times


def scores(scale: float = 1.0, shift: float = 0.0, dtype: torch.dtype = torch.float64) -> Tensor:
    made = torch.randn(N, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * scale + shift
    return made.to(dtype).requires_grad_()


def asked(given: Tensor) -> tuple[Tensor, Tensor]:
    """Log-softmax at the ids, and log-sum-exp."""
    relative, total, peak = softmax_at_(given * 1.0, IDS)  # used up, so never the leaf itself
    return relative - total[:, None], total + peak


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_softmax_at_values_and_gradients(scale: float) -> None:
    given = scores(scale)
    expected = given.log_softmax(-1).gather(1, IDS), given.logsumexp(-1)
    found = asked(given)
    for own, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-13, atol=1e-13)
    weights = torch.randn(N, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def gradient(pair: tuple[Tensor, Tensor]) -> Tensor:
        # together, as stored entries use them; the peak alone counts as a constant
        loss = (pair[0] * weights).sum() + (pair[1] - pair[1].detach()).sin().sum()
        return torch.autograd.grad(loss, given)[0]

    torch.testing.assert_close(gradient(found), gradient(expected), rtol=1e-12, atol=1e-13)


def test_softmax_at_finite_differences() -> None:
    def log_probs(given: Tensor) -> Tensor:
        return asked(given)[0]

    assert torch.autograd.gradcheck(log_probs, scores())


@pytest.mark.parametrize("shift", [1e3, -1e3])
def test_a_common_shift_costs_no_digits(shift: float) -> None:
    single = scores(shift=shift, dtype=torch.float32)
    log_probs = asked(single)[0]
    reference = single.detach().double().log_softmax(-1).gather(1, IDS)
    assert (log_probs.double() - reference).abs().max() < 1e-6  # the scores themselves resolve 6e-5


def test_tokens_ruled_out() -> None:
    with torch.no_grad():
        given = scores().clone()
        given[:, 2] = -torch.inf
    given.requires_grad_()
    log_probs, _ = asked(given)
    expected = given.log_softmax(-1).gather(1, IDS)
    torch.testing.assert_close(log_probs, expected)
    assert (log_probs[IDS == 2] == -torch.inf).all()
    finite = IDS != 2
    found = torch.autograd.grad(log_probs[finite].sum(), given)[0]
    torch.testing.assert_close(found, torch.autograd.grad(expected[finite].sum(), given)[0])


def test_softmax_at_without_gradients_makes_no_second_tensor() -> None:
    given = scores().detach()
    before = given.clone()
    softmax_at_(given, IDS)
    torch.testing.assert_close(given, (before - before.amax(-1, keepdim=True)).exp(), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 3, 64, 1000, 50_001])
def test_log_softmax_in_place_is_log_softmax(width: int, dtype: torch.dtype) -> None:
    given = 30 * torch.randn(33, width, generator=torch.Generator().manual_seed(width), dtype=dtype)
    given[3, width // 2 + 1 :] = -torch.inf
    exact, theirs, kept = given.double().log_softmax(-1), given.log_softmax(-1), given.data_ptr()
    found = log_softmax_(given)
    seen = exact != -torch.inf
    assert torch.equal(seen, found != -torch.inf)
    ulp = torch.finfo(dtype).eps * exact[seen].abs().max()
    error, allowed = ((one.double() - exact)[seen].abs().max() for one in (found, theirs))
    assert error <= allowed + ulp
    assert found.data_ptr() == kept


def test_log_softmax_with_a_gradient_leaves_the_scores() -> None:
    given = scores()
    before = given.detach().clone()
    found = torch.autograd.grad(log_softmax_(given)[:, 0].sum(), given)[0]
    torch.testing.assert_close(found, torch.autograd.grad(given.log_softmax(-1)[:, 0].sum(), given)[0])
    assert torch.equal(given, before)


def test_softmax_at_in_a_single_pass_makes_no_second_tensor() -> None:
    given = scores()
    made = given * 1.0
    kept, seen = made.data_ptr(), []
    made.register_hook(lambda gradient: seen.append(gradient.data_ptr()))
    relative, total, _ = softmax_at_(made, IDS, FusedBackward())
    gradient = torch.autograd.grad((relative - total[:, None]).sum(), given)[0]
    assert seen == [kept]
    expected = torch.autograd.grad(given.log_softmax(-1).gather(1, IDS).sum(), given)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-13)


def test_softmax_at_a_second_pass_through_the_same_graph() -> None:
    given = scores()
    total = asked(given)[0].sum()
    first = torch.autograd.grad(total, given, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(total, given)[0], first, rtol=0, atol=0)


@pytest.mark.parametrize("part", [0, 1])
def test_either_part_alone_has_its_gradient(part: int) -> None:
    given = scores()
    found = softmax_at_(given * 1.0, IDS)[part]
    expected = (given.gather(1, IDS), given.logsumexp(-1))[part]
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), given)[0],
        torch.autograd.grad(expected.sum(), given)[0],
        rtol=1e-12,
        atol=1e-13,
    )


def case(seed: int, share: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(N, V, generator=generator, dtype=torch.float64)
    ids = torch.stack([torch.randperm(V, generator=generator)[:K] for _ in range(N)])
    values = torch.randn(N, K, generator=generator, dtype=torch.float64)
    return scores, ids, values, torch.rand(N, K, generator=generator) < share


@hypothesis.given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.7, 1.0]))
def test_overwrite_is_an_assignment_of_what_is_present(seed: int, share: float) -> None:
    scores, ids, values, present = case(seed, share)
    expected = scores.clone()
    for n in range(N):
        for k in range(K):
            if present[n, k]:
                expected[n, ids[n, k]] = values[n, k]
    given = scores.clone()
    found = overwrite_(given, ids, values, present)
    assert torch.equal(found, expected)
    assert found.data_ptr() == given.data_ptr()  # in place


def test_overwrite_gradients() -> None:
    scores, ids, values, present = case(0, 0.6)
    present[2] = False
    inputs = scores.requires_grad_(), values.requires_grad_()
    assert torch.autograd.gradcheck(lambda s, v: overwrite_(s * 1.0, ids, v, present).exp(), inputs)
    overwrite_(scores * 1.0, ids, values, present).sum().backward()
    written = torch.zeros(N, V, dtype=torch.float64).scatter_add(1, ids, present.double())
    assert torch.equal(scores.grad, 1 - written)
    assert torch.equal(values.grad, present.double())


def test_overwrite_absent_columns_may_hold_any_token_twice() -> None:
    ids, present = torch.tensor([[3, 0, 0, 0]]), torch.tensor([[True, False, False, False]])
    scores = torch.zeros(1, V, requires_grad=True)
    values = torch.tensor([[5.0, 6.0, 7.0, 8.0]])
    found = overwrite_(scores * 1.0, ids, values, present)
    assert found.tolist() == [[0, 0, 0, 5, 0, 0, 0, 0, 0]]
    found.sum().backward()
    assert scores.grad.tolist() == [[1, 1, 1, 0, 1, 1, 1, 1, 1]]


def test_overwrite_no_column_at_all() -> None:
    scores, nothing = torch.randn(2, V), torch.zeros(2, 0)
    assert torch.equal(overwrite_(scores.clone(), nothing.long(), nothing, nothing.bool()), scores)


def test_overwrite_infinite_scores_stay_where_they_are_not_overwritten() -> None:
    scores = torch.tensor([[-torch.inf, 1.0, -torch.inf]])
    found = overwrite_(scores, torch.tensor([[0, 0]]), torch.tensor([[2.0, 9.0]]), torch.tensor([[False, False]]))
    assert found.tolist() == [[-torch.inf, 1.0, -torch.inf]]


def test_overwrite_in_a_single_pass_makes_no_second_gradient() -> None:
    scores, ids, values, present = case(0, 0.6)
    inputs = scores.requires_grad_(), values.requires_grad_()

    def result(fused_backward: FusedBackward | None, seen: list[int]) -> Tensor:
        made = inputs[0] * 1.0
        made.register_hook(lambda gradient: seen.append(gradient.data_ptr()))
        changed = overwrite_(made, ids, inputs[1], present, fused_backward)
        product = changed * 2.0
        product.grad_fn.register_hook(lambda gradients, _: seen.append(gradients[0].data_ptr()))  # type: ignore[union-attr]
        return product.exp().sum()

    once, several = [], []
    found = torch.autograd.grad(result(FusedBackward(), once), inputs)
    expected = torch.autograd.grad(result(None, several), inputs)
    for own, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(own, reference, rtol=0, atol=0)
    assert once[0] == once[1]  # the gradient of the result was changed into that of the scores
    assert several[0] != several[1]


@torch.no_grad()
def test_rows_over_a_large_vocabulary_sum_to_one() -> None:
    """torch's own is off by 1.6e-5 there."""
    scores = 3 * torch.randn(8, 49_152, generator=torch.Generator().manual_seed(0)) + 20
    ours = log_softmax_(scores.clone())
    assert (ours.double().exp().sum(-1) - 1).abs().max() < 2e-6
    torch.testing.assert_close(ours.double(), scores.double().log_softmax(-1), rtol=0, atol=5e-6)
