"""Softmax, projected or not: published numbers, textbook form, size."""

from __future__ import annotations

import pytest
import torch

from tests.oracles import head_forms, poster
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook_cases import CHECKS, Comparisons, D, rank

compared = Comparisons(head_forms.log_softmax, {"softmax": "softmax", "softmax+proj": "softmax+proj"})


@pytest.mark.parametrize(
    ("name", "spec"), [("gpt2_S", "softmax+proj"), ("t5_S", {"head": "softmax", "proj": True, "bias": False})]
)
def test_published_numbers(name: str, spec: object) -> None:
    PublishedHead(name, spec, {"proj_S0": "project"}).check_values_and_gradients()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("model", "name"), compared.every)
def test_textbook_form(model: str, name: str, check: str) -> None:
    CHECKS[check](compared(model, name))


def test_untrained_projection_changes_nothing() -> None:
    compared.check_untrained("softmax+proj")


@torch.no_grad()
def test_rank_is_at_most_width_plus_one() -> None:
    assert rank("softmax") == D + 1


@pytest.mark.parametrize(("spec", "millions"), [("softmax+proj", 125.0)])
def test_size_is_that_of_the_poster(spec: str, millions: float) -> None:
    assert abs(poster.millions(spec) - millions) < poster.ROUNDING


def test_softmax_adds_no_parameter() -> None:
    assert poster.gpt2_small() == 124_439_808
    assert poster.added("softmax") == 0
