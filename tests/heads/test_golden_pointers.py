"""Pointer heads against the numbers of the published system: values and gradients, float64.

The published decoder-only pointer generator and sentinel see the future and are not normalised: no numbers of theirs
are compared with here, the textbook forms are.
"""

from __future__ import annotations

import pytest
import torch

from tests.oracles import published_heads
from tests.oracles.published import Published, pointer_form

NAMES = {
    "proj_S0": "project",
    "proj_PD_query": "local.query",
    "proj_LD_localemb": "local.key",
    "proj_PE0_query": "local.query",
    "proj_LE0_localemb": "local.key",
    "ptr_gate": "gate",
    "att_v": "attention_vector",
    "att_bias": "attention_bias",
    "init_neg_bias": "bias",
}

CASES = {
    "gpt2_CopyNet": {"head": "copynet"},
    "gpt2_cache": {"head": "copynet", "tanh": False},
    "t5_CopyNet": {"head": "copynet", "bias": False},
    "t5_PG": {"head": "pg", "bias": False},
    "t5_PS": {"head": "ps", "bias": False},
}
WITH_SOURCE = ["t5_CopyNet", "t5_PG", "t5_PS"]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    """With padding of the source taken for words, as published."""
    published = Published(name)
    head, used = published_heads.load(CASES[name], published, NAMES)
    left = {own for own, value in head.named_parameters() if not any(value is one for one in used.values())}
    # published decoder-only models have this bias and do not use it: ours is 0 here
    assert left == ({"bias"} if name.startswith("gpt2") else set())
    log_probs = published_heads.log_probs(head, published, padding_counts=True)
    torch.testing.assert_close(log_probs, published.log_probs, rtol=0, atol=1e-6)
    loss = published.loss(log_probs)
    torch.testing.assert_close(loss, published.data["loss_f64"], rtol=0, atol=1e-6)
    for leaf, gradient in published_heads.gradients(loss, published, used).items():
        torch.testing.assert_close(gradient, published.gradient(leaf), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", WITH_SOURCE)
def test_padding_of_the_source_is_not_pointed_at(name: str) -> None:
    """Where we differ: the row without padding is as published, the other as the textbook form without padding."""
    published = Published(name)
    head, used = published_heads.load(CASES[name], published, NAMES)
    log_probs = published_heads.log_probs(head, published, padding_counts=False)
    torch.testing.assert_close(log_probs[0], published.log_probs[0], rtol=0, atol=1e-6)
    assert (log_probs[1] - published.log_probs[1]).abs().max() > 1e-2

    expected = pointer_form(published, padding_counts=False)
    torch.testing.assert_close(log_probs, expected, rtol=0, atol=1e-10)
    wanted = torch.autograd.grad(published.loss(expected), list(published.leaves.values()), materialize_grads=True)
    found = published_heads.gradients(published.loss(log_probs), published, used)
    for leaf, gradient in zip(published.leaves, wanted, strict=True):
        torch.testing.assert_close(found.get(leaf, torch.zeros_like(gradient)), gradient, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["gpt2_cache", "t5_PS"])
def test_rows_sum_to_one(name: str) -> None:
    published = Published(name)
    head, _ = published_heads.load(CASES[name], published, NAMES)
    mass = published_heads.log_probs(head, published, padding_counts=False).exp().sum(-1)
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=0, atol=1e-12)
