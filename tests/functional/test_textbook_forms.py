"""Every head's loss and gradients in float64: the fast functions against their plain forms, one line of torch each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.distribution import next_token, scores
from nextword.distribution import score_edits as edits
from nextword.functional import textbook_forms as plain
from nextword.model.forward import output_layer
from tests.helpers.families import VOCABULARY, inputs, labels
from tests.helpers.head_specs import pairs, specs, with_head

CALLERS: dict[str, ModuleType] = {
    "sum_with_gradient": next_token,
    "dense_products": output_layer,
    "picked_product": output_layer,
    "grouped_product": output_layer,
    "softmax_at_": scores,
    "overwrite_": edits,
}
"""Where each fast function is called in training."""
FEW_ROWS = 5 * VOCABULARY * 4 * 3 / 2**20
"""Memory for about five rows of scores, in MiB."""


def watched(function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def call(*arguments: Any, **settings: Any) -> Any:
        calls.append(function.__name__)
        return function(*arguments, **settings)

    return call


def loss_and_gradients(model: Any) -> dict[str, Tensor]:
    model.zero_grad()
    with torch.enable_grad(), nw.score_memory(FEW_ROWS):
        given = inputs(model)
        loss = model(**given, labels=labels(given)).loss
        (loss * 3).backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    return gradients | {"loss": loss.detach()}


def test_every_fast_function_has_a_plain_form_of_its_own_signature() -> None:
    plain_forms = {name for name, member in vars(plain).items() if inspect.isfunction(member)}
    assert plain_forms == set(CALLERS)
    for name, caller in CALLERS.items():
        fast, slow = (list(inspect.signature(getattr(own, name)).parameters) for own in (caller, plain))
        assert fast == slow, name


def in_plain_form(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Puts every plain form in the place of its fast one; the names of those that are called from here on."""
    calls: list[str] = []
    for name, caller in CALLERS.items():
        monkeypatch.setattr(caller, name, watched(getattr(plain, name), calls))
    return calls


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head"), pairs("gpt2", "bart"))
def test_every_head(family: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_head(family, specs()[head], dtype=torch.float64)
    fast = loss_and_gradients(model)
    in_plain_form(monkeypatch)
    expected = loss_and_gradients(model)
    assert fast.keys() == expected.keys()
    assert any(name.startswith("next_word_head") for name in fast) or not list(model.next_word_head.parameters())
    for name, reference in expected.items():
        torch.testing.assert_close(
            fast[name], reference, rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize(
    ("head", "called"),
    [
        ("softmax", {"sum_with_gradient", "dense_products", "softmax_at_"}),
        ("mos:3", {"sum_with_gradient", "dense_products", "softmax_at_"}),
        ("softmax+r:3", {"sum_with_gradient", "dense_products", "softmax_at_", "overwrite_", "picked_product"}),
        ("f2", {"sum_with_gradient", "grouped_product"}),
    ],
)
def test_plain_forms_are_what_ran(head: str, called: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_head("gpt2", specs()[head], dtype=torch.float64)
    calls = in_plain_form(monkeypatch)
    loss_and_gradients(model)
    assert called <= set(calls)
