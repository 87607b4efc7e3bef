"""Pointer sentinel: published numbers, textbook form, gates far out, size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nextword.heads import Head
from tests.oracles import head_forms, poster, published_heads
from tests.oracles.pointer_cases import MI, check_blind_positions, check_far_out
from tests.oracles.published import pointer_form
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook import pointers
from tests.oracles.textbook_cases import AMPLE, CHECKS, TINY, Case, Comparisons

NAMES = published_heads.LOCAL_EMBEDDINGS | {"proj_S0": "project", "ptr_gate": "gate"}
SPECS: dict[str, object] = {
    "ps": "ps",
    "mi": {"head": "ps", "mi": MI},
    "no bias": {"head": "ps", "bias": False},
    "current": {"head": "ps", "include_current": True},
}


def form(head: Head, case: Case) -> Tensor:
    queries, positions = head_forms.pointed_at(head, case)
    logits, gate = head_forms.projected_scores(head, case), head_forms.pointer_gate(head, case)
    return pointers.log_pointer_sentinel(logits, pointers.product_scores(queries, positions), gate, positions)


compared = Comparisons(form, decoder=SPECS, encoder_decoder=SPECS)


def published() -> PublishedHead:
    """Of the encoder-decoder: the published decoder-only head sees the future, and does not sum to one."""
    return PublishedHead("t5_PS", {"head": "ps", "bias": False}, NAMES)


def test_published_numbers() -> None:
    published().check_values_and_gradients()


def test_padding_of_the_source_is_not_pointed_at() -> None:
    head = published()
    head.check_without_padding(pointer_form(head.published, padding_counts=False))


def test_rows_sum_to_one() -> None:
    published().check_mass()


@pytest.mark.few(23)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("model", "name"), compared.every)
def test_textbook_form(model: str, name: str, check: str) -> None:
    CHECKS[check](compared(model, name))


@pytest.mark.parametrize(("model", "name"), compared.every)
def test_sources_are_the_softmax_and_the_pointer(model: str, name: str) -> None:
    head, case = compared(model, name).head, compared(model, name).case
    ids = torch.zeros(case.ids.numel(), 1, dtype=torch.long)
    assert set(head(case.context(head)).sources(ids)) == {"softmax", "pointer"}


@pytest.mark.parametrize("model", ["decoder", "encoder-decoder"])
def test_tokens_that_the_output_layer_lacks(model: str) -> None:
    compared(model, "ps").check_foreign_tokens()


@pytest.mark.parametrize(("model", "name"), [each for each in compared.every if each[1] in ("mi", "current")])
def test_sequences_of_one_token(model: str, name: str) -> None:
    comparison = compared(model, name, length=1)
    comparison.check_values(AMPLE)
    comparison.check_gradients(1, AMPLE)
    comparison.check_gradients(12, TINY)


def test_where_nothing_is_visible_the_softmax_speaks() -> None:
    comparison = compared("decoder", "ps")
    check_blind_positions(comparison, list(comparison.head.gate.parameters()))


@pytest.mark.parametrize("size", [300.0, -300.0])
def test_gates_and_scores_far_out_stay_finite(size: float) -> None:
    check_far_out(compared, "ps", size)


@pytest.mark.parametrize(("spec", "millions"), [("ps", 126.2), ("ps+mi", 133.3)])
def test_size_is_that_of_the_poster(spec: str, millions: float) -> None:
    assert abs(poster.millions(spec) - millions) < poster.ROUNDING
