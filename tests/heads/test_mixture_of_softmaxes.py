"""Mixture of softmaxes with each gate: published numbers, textbook form, rank, size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.heads import Head
from tests.helpers.generating_models import headed
from tests.oracles import head_forms, poster
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook_cases import CHECKS, Case, Comparisons, D, rank

NAMES = {
    "proj_S0": "project.0",
    "proj_S1": "project.1",
    "proj_S2": "project.2",
    "mos_gate": "gate.linear",
    "mos_static_logits": "gate.scores",
}
WITHOUT_STATIC = {theirs: ours for theirs, ours in NAMES.items() if theirs != "mos_static_logits"}
"""The T5 file has the scores of a static gate too, which its dynamic gate leaves unused."""


def form(head: Head, case: Case) -> Tensor:
    parts = [(project.weight, project.bias) for project in head.project]
    weights = head_forms.gate(head, case)
    return textbook.log_mixture_of_softmaxes(case.text(head).inputs, parts, case.weight, weights)


SPECS = {"dynamic": "mos:3", "static": "mos:2,static", "uniform": "mos:4,uniform", "dynamic+mi": "mos:3+mi"}
compared = Comparisons(form, SPECS | {"uniform+mi": "mos:2,uniform+mi"})


@pytest.mark.parametrize(
    ("name", "spec", "names"),
    [
        ("gpt2_MoS", "mos:3", NAMES),
        ("gpt2_MoS_static", "mos:3,static", NAMES),
        ("t5_MoS", {"head": "mos", "components": 3, "bias": False}, WITHOUT_STATIC),
    ],
)
def test_published_numbers(name: str, spec: object, names: dict[str, str]) -> None:
    PublishedHead(name, spec, names).check_values_and_gradients()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", SPECS)
def test_textbook_form(name: str, check: str) -> None:
    CHECKS[check](compared("decoder", name))


def test_untrained_mixture_changes_nothing() -> None:
    compared.check_untrained("dynamic")


@pytest.mark.parametrize("spec", ["mos:3", "mos:3,static", "mos:3,uniform", "mos:3,uniform+mi"])
def test_softmaxes_become_different(spec: str) -> None:
    """From nearly equal ones, in a training in which no gate can tell them apart but the dynamic one."""
    model, ids = headed("gpt2", "softmax"), torch.randint(5, 40, (4, 12), generator=torch.Generator().manual_seed(1))
    plain = model.distribution(ids).log_probs()
    model = nw.attach(model, spec)
    assert (model.distribution(ids).log_probs() - plain).abs().max() < 0.1

    def distance() -> float:
        with torch.no_grad():
            parts = [part.log_probs().exp() for part in model.distribution(ids).parts]
        return float((parts[0] - parts[1]).abs().sum(-1).mean())

    found = [distance()]
    optimizer = torch.optim.Adam(model.next_word_head.parameters(), 1e-2)
    for _ in range(30):  # a text that is known by heart makes them equal again
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        found.append(distance())
    assert max(found) > max(5 * found[0], 0.05)


@torch.no_grad()
def test_rank_exceeds_that_of_softmax() -> None:
    assert rank("mos:3") > D + 1


@pytest.mark.parametrize(("spec", "millions"), [("mos:3", 126.2), ("mos:3+mi", 133.3)])
def test_size_is_that_of_the_poster(spec: str, millions: float) -> None:
    assert abs(poster.millions(spec) - millions) < poster.ROUNDING
