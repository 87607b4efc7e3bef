"""Cases that every pointer head goes through: nothing to point at, and a gate far beyond where it saturates."""

from __future__ import annotations

import torch
from torch import Tensor

import nextword as nw
from tests.oracles import head_forms
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook_cases import GRADIENT, TINY, Case, Comparison, Comparisons, randomised

MI = {"layers": 3, "window": 3}


def check_blind_positions(comparison: Comparison, gate: list[Tensor]) -> None:
    """At a first token and before it, and after a row of padding, the softmax speaks, and the gate gets no gradient."""
    head, case = comparison.head, comparison.case
    softmax = textbook.log_softmax(head_forms.projected_scores(head, case))
    blind = torch.zeros_like(case.mask)
    blind[:, 0] = blind[1, :4] = blind[3] = True
    found = comparison.found()
    torch.testing.assert_close(found[blind], softmax[blind], rtol=0, atol=1e-12)
    assert ((found - softmax).abs().amax(-1) > 1e-6)[~blind].all()
    gradients = torch.autograd.grad(found[blind].exp()[:, 2].sum(), gate, materialize_grads=True)
    assert all((gradient == 0).all() for gradient in gradients)


def check_far_out(compared: Comparisons, name: str, size: float) -> None:
    """With a gate (CopyNet: a bias of its scores) of this size values and gradients are finite and the textbook's."""
    head, case = randomised(compared.specs["decoder"][name]), Case()
    bias = head.bias if name == "copynet" else head.gate.bias
    with torch.no_grad():
        bias.fill_(size)
    asked = case.ids.flatten()[:, None].roll(1)
    with nw.score_memory(TINY):
        values = head(case.context(head)).log_prob(asked)
    assert values.isfinite().all()
    leaves = [*case.leaves.values(), *head.parameters()]
    for gradient in torch.autograd.grad(values.sum(), leaves, materialize_grads=True):
        assert gradient.isfinite().all()
    with torch.no_grad():
        expected = compared.form(head, case).flatten(0, 1).gather(1, asked)
    known = expected.isfinite()
    assert known.sum() > len(expected) // 2
    torch.testing.assert_close(values[known], expected[known], rtol=GRADIENT, atol=GRADIENT)
