"""Scores that the auxiliary text adds (dau): textbook form, alone and within GPT-2."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from tests.oracles.conditioner_cases import check_padding, check_pooled_scores, check_whole_model, pooled
from tests.oracles.textbook import conditioning as textbook


def form(model: Any, row: Tensor, states: Tensor) -> Tensor:
    gpt2, project = model.backbone, model.conditioner.project
    read = textbook.gpt2_states(gpt2.transformer, row, {})
    scores = read @ gpt2.lm_head.weight.T
    return textbook.dau_scores(scores, pooled(model, states), project.weight, project.bias).log_softmax(-1)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_pooled_scores(pooling: str) -> None:
    check_pooled_scores(f"dau:{pooling}", pooling)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_padding_says_nothing(pooling: str) -> None:
    check_padding(f"dau:{pooling}")


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_whole_model(pooling: str) -> None:
    check_whole_model(f"dau:{pooling}", form)
