"""Pointer heads against their float64 textbook forms: values, gradients, sources; padding, chunks, repeats."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.heads import Head
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import pointers
from tests.oracles.textbook_cases import TINY, Case, Comparison, randomised

MI = {"layers": 3, "window": 3}
SPECS: dict[str, object] = {
    "pg": "pg",
    "pg, mi": {"head": "pg", "mi": MI},
    "pg, no bias": {"head": "pg", "bias": False},
    "pg, current": {"head": "pg", "include_current": True},
    "ps": "ps",
    "ps, mi": {"head": "ps", "mi": MI},
    "ps, no bias": {"head": "ps", "bias": False},
    "ps, current": {"head": "ps", "include_current": True},
    "copynet": "copynet",
    "copynet, mi": {"head": "copynet", "mi": MI},
    "copynet, no bias": {"head": "copynet", "bias": False},
    "copynet, current": {"head": "copynet", "include_current": True},
    "copynet without tanh": {"head": "copynet", "tanh": False},
}
ALL = [(model, name) for model in ("decoder", "source") for name in SPECS]


def form(head: Head, case: Case) -> Tensor:
    text, source, config = case.text(head), case.source(head), head.config
    embeds = head.local.key.weight, head.local.key.bias
    if source is None:
        places = pointers.past(text, embeds, config.include_current)
    else:
        places = pointers.source(text, source, embeds)
    queries = textbook.project(text.inputs, head.local.query.weight, head.local.query.bias)
    logits = textbook.scores(textbook.project(text.inputs, head.project.weight, head.project.bias), case.weight)
    if config.head == "copynet":
        scores = pointers.product_scores(queries, places, config.tanh) + head.bias
        return pointers.log_copynet(logits, scores, places)
    gate = textbook.project(case.layers[0], head.gate.weight, head.gate.bias)[..., 0]
    if config.head == "ps":
        return pointers.log_pointer_sentinel(logits, pointers.product_scores(queries, places), gate, places)
    scores = pointers.additive_scores(queries, places, head.attention_vector, head.attention_bias)
    return pointers.log_pointer_generator(logits, scores, gate, places)


@cache
def compared(model: str, name: str, length: int = 9) -> Comparison:
    """Computed once for all tests."""
    head = randomised(SPECS[name], over_source=model == "source")
    case = Case(length)
    return Comparison(head, case, form(head, case))


@pytest.mark.parametrize("mebibytes", [256, TINY], ids=["whole", "chunked"])
@pytest.mark.parametrize(("model", "name"), ALL)
def test_log_probs(model: str, name: str, mebibytes: float) -> None:
    compared(model, name).check_values(mebibytes)


@pytest.mark.parametrize(("columns", "mebibytes"), [(1, 256), (1, TINY), (12, TINY)])
@pytest.mark.parametrize(("model", "name"), ALL)
def test_log_prob_and_gradients(model: str, name: str, columns: int, mebibytes: float) -> None:
    compared(model, name).check_gradients(columns, mebibytes)


@pytest.mark.parametrize(("model", "name"), ALL)
def test_questions_agree(model: str, name: str) -> None:
    comparison = compared(model, name)
    comparison.check_answers()
    ids = torch.zeros(comparison.case.ids.numel(), 1, dtype=torch.long)
    assert set(comparison.head(comparison.case.context(comparison.head)).sources(ids)) == {"softmax", "pointer"}


@pytest.mark.parametrize(("model", "name"), ALL)
def test_some_positions_are_those_of_all(model: str, name: str) -> None:
    compared(model, name).check_some_positions()


@pytest.mark.parametrize(("model", "name"), [(model, name) for model, name in ALL if name in ("pg", "ps", "copynet")])
def test_tokens_that_the_output_layer_lacks(model: str, name: str) -> None:
    compared(model, name).check_foreign_tokens()


@pytest.mark.parametrize(("model", "name"), [(model, name) for model, name in ALL if "mi" in name or "current" in name])
def test_sequences_of_one_token(model: str, name: str) -> None:
    comparison = compared(model, name, length=1)
    comparison.check_values(256)
    comparison.check_gradients(1, 256)
    comparison.check_gradients(12, TINY)


@pytest.mark.parametrize("name", ["pg", "ps", "copynet"])
def test_where_nothing_is_visible_the_softmax_speaks(name: str) -> None:
    """At a first token and before it, and after a row of padding: whatever the gate says, and it gets no gradient."""
    comparison = compared("decoder", name)
    head, case = comparison.head, comparison.case
    softmax = textbook.log_softmax(
        textbook.scores(textbook.project(case.layers[0], head.project.weight, head.project.bias), case.weight)
    )
    blind = torch.zeros_like(case.mask)
    blind[:, 0] = blind[1, :4] = blind[3] = True
    found = comparison.found()
    torch.testing.assert_close(found[blind], softmax[blind], rtol=0, atol=1e-12)
    assert ((found - softmax).abs().amax(-1) > 1e-6)[~blind].all()
    parameters = [head.bias] if name == "copynet" else list(head.gate.parameters())
    gradients = torch.autograd.grad(found[blind].exp()[:, 2].sum(), parameters, materialize_grads=True)
    assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize("name", ["pg", "ps", "copynet"])
@pytest.mark.parametrize("size", [300.0, -300.0])
def test_gates_and_scores_far_out_stay_finite(name: str, size: float) -> None:
    head = randomised(SPECS[name])
    case = Case()
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
        expected = form(head, case).flatten(0, 1).gather(1, asked)
    known = expected.isfinite()
    assert known.sum() > len(expected) // 2
    torch.testing.assert_close(values[known], expected[known], rtol=1e-9, atol=1e-9)
