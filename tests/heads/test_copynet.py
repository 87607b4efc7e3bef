"""CopyNet, with tanh or without: published numbers, textbook form, scores far out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nextword.heads import Head
from tests.oracles import head_forms, published_heads
from tests.oracles.pointer_cases import MI, check_blind_positions, check_far_out
from tests.oracles.published import pointer_form
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook import pointers
from tests.oracles.textbook_cases import AMPLE, CHECKS, TINY, Case, Comparisons

NAMES = published_heads.LOCAL_EMBEDDINGS | {"proj_S0": "project", "init_neg_bias": "bias"}
SPECS: dict[str, object] = {
    "copynet": "copynet",
    "mi": {"head": "copynet", "mi": MI},
    "no bias": {"head": "copynet", "bias": False},
    "current": {"head": "copynet", "include_current": True},
    "without tanh": {"head": "copynet", "tanh": False},
}


def form(head: Head, case: Case) -> Tensor:
    queries, positions = head_forms.pointed_at(head, case)
    scores = pointers.product_scores(queries, positions, head.config.tanh) + head.bias
    return pointers.log_copynet(head_forms.projected_scores(head, case), scores, positions)


compared = Comparisons(form, decoder=SPECS, encoder_decoder=SPECS)


BIAS_LEFT = frozenset({"bias"})
"""Published decoder-only models have this bias and do not use it: ours is 0 here."""
DECODERS = {"gpt2_CopyNet": {"head": "copynet"}, "gpt2_cache": {"head": "copynet", "tanh": False}}


@pytest.mark.parametrize("name", DECODERS)
def test_published_numbers_of_the_past(name: str) -> None:
    PublishedHead(name, DECODERS[name], NAMES, BIAS_LEFT).check_values_and_gradients()


def of_a_source() -> PublishedHead:
    return PublishedHead("t5_CopyNet", {"head": "copynet", "bias": False}, NAMES)


def test_published_numbers_of_a_source() -> None:
    of_a_source().check_values_and_gradients()


def test_padding_of_the_source_is_not_pointed_at() -> None:
    head = of_a_source()
    head.check_without_padding(pointer_form(head.published, padding_counts=False))


def test_rows_sum_to_one() -> None:
    PublishedHead("gpt2_cache", DECODERS["gpt2_cache"], NAMES, BIAS_LEFT).check_mass()


@pytest.mark.few(22)
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
    compared(model, "copynet").check_foreign_tokens()


@pytest.mark.parametrize(("model", "name"), [each for each in compared.every if each[1] in ("mi", "current")])
def test_sequences_of_one_token(model: str, name: str) -> None:
    comparison = compared(model, name, length=1)
    comparison.check_values(AMPLE)
    comparison.check_gradients(1, AMPLE)
    comparison.check_gradients(12, TINY)


def test_where_nothing_is_visible_the_softmax_speaks() -> None:
    comparison = compared("decoder", "copynet")
    check_blind_positions(comparison, [comparison.head.bias])


@pytest.mark.parametrize("size", [300.0, -300.0])
def test_gates_and_scores_far_out_stay_finite(size: float) -> None:
    check_far_out(compared, "copynet", size)
