"""Asked scores and normaliser, against torch's own log-softmax and log-sum-exp."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nextword.functional.streamed.softmax_at import softmax_at
from nextword.functional.streamed.weight_gradient import single_pass

N, V = 6, 9
IDS = torch.randint(0, V, (N, 3), generator=torch.Generator().manual_seed(1))
IDS[0] = 4  # asked for one token three times


def scores(scale: float = 1.0, shift: float = 0.0, dtype: torch.dtype = torch.float64) -> Tensor:
    made = torch.randn(N, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * scale + shift
    return made.to(dtype).requires_grad_()


def asked(given: Tensor) -> tuple[Tensor, Tensor]:
    """Log-softmax at the ids, and log-sum-exp."""
    relative, total, peak = softmax_at(given * 1.0, IDS)  # used up, so never the leaf itself
    return relative - total[:, None], total + peak


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_values_and_gradients(scale: float) -> None:
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


def test_finite_differences() -> None:
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


def test_without_gradients_it_makes_no_second_tensor() -> None:
    given = scores().detach()
    before = given.clone()
    softmax_at(given, IDS)
    torch.testing.assert_close(given, (before - before.amax(-1, keepdim=True)).exp(), rtol=1e-14, atol=1e-14)


def test_a_single_pass_makes_no_second_tensor() -> None:
    given = scores()
    made = given * 1.0
    kept, seen = made.data_ptr(), []
    made.register_hook(lambda gradient: seen.append(gradient.data_ptr()))
    with single_pass([]):
        relative, total, _ = softmax_at(made, IDS)
        gradient = torch.autograd.grad((relative - total[:, None]).sum(), given)[0]
    assert seen == [kept]
    expected = torch.autograd.grad(given.log_softmax(-1).gather(1, IDS).sum(), given)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-13)


def test_a_second_pass_through_the_same_graph() -> None:
    given = scores()
    total = asked(given)[0].sum()
    first = torch.autograd.grad(total, given, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(total, given)[0], first, rtol=0, atol=0)


@pytest.mark.parametrize("part", [0, 1])
def test_either_part_alone_has_its_gradient(part: int) -> None:
    given = scores()
    found = softmax_at(given * 1.0, IDS)[part]
    expected = (given.gather(1, IDS), given.logsumexp(-1))[part]
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), given)[0],
        torch.autograd.grad(expected.sum(), given)[0],
        rtol=1e-12,
        atol=1e-13,
    )
