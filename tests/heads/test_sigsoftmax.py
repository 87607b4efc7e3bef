"""Sigsoftmax: published numbers, textbook form, rank."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nextword.heads import Head
from tests.helpers.conditioned_models import conditioned
from tests.helpers.families import tiny
from tests.oracles import head_forms
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook_cases import CHECKS, Case, Comparisons, D, rank


def form(head: Head, case: Case) -> Tensor:
    return textbook.log_sigsoftmax(head_forms.projected_scores(head, case))


compared = Comparisons(form, {"sigsoftmax": "sigsoftmax", "sigsoftmax+mi": "sigsoftmax+mi:1x3"})


def test_published_numbers() -> None:
    PublishedHead("gpt2_S_sigsoftmax", "sigsoftmax", {"proj_S0": "project"}).check_values_and_gradients()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("model", "name"), compared.every)
def test_textbook_form(model: str, name: str, check: str) -> None:
    CHECKS[check](compared(model, name))


@torch.no_grad()
def test_rank_exceeds_that_of_softmax() -> None:
    assert rank("sigsoftmax") > D + 1


@pytest.mark.parametrize("conditioner", ["dau", "lmh:max", "bergpt"])
def test_the_shift_is_found_whatever_a_conditioner_adds_to_the_scores(conditioner: str) -> None:
    inputs = {"input_ids": torch.arange(3, 12)[None]}
    found = []
    for head in ("sigsoftmax", "softmax"):
        model = conditioned(tiny("gpt2"), head, conditioner)
        found.append(model.distribution(**inputs, **model.blank_auxiliary(1)).log_probs())
    torch.testing.assert_close(*found, rtol=0, atol=1e-3)
