"""Multiple input states: published numbers and textbook form of a softmax that reads them, size."""

from __future__ import annotations

import pytest
import torch

from tests.oracles import head_forms, poster
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook_cases import CHECKS, Comparisons, D, rank

compared = Comparisons(head_forms.log_softmax, {"softmax+mi": "softmax+mi", "softmax+mi:2x4": "softmax+mi:2x4"})


def test_published_numbers() -> None:
    names = {"proj_S0": "project", "mi_mlp": "inputs.merge"}
    PublishedHead("gpt2_S_Mi", "softmax+mi:3x3", names).check_values_and_gradients()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("model", "name"), compared.every)
def test_textbook_form(model: str, name: str, check: str) -> None:
    CHECKS[check](compared(model, name))


def test_untrained_block_changes_nothing() -> None:
    compared.check_untrained("softmax+mi")


@torch.no_grad()
def test_rank_is_that_of_softmax() -> None:
    assert rank("softmax+mi") == D + 1


@pytest.mark.parametrize(("spec", "millions"), [("softmax+mi", 130.9)])
def test_size_is_that_of_the_poster(spec: str, millions: float) -> None:
    assert abs(poster.millions(spec) - millions) < poster.ROUNDING
