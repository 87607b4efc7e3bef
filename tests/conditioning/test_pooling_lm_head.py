"""A wider output layer that reads the auxiliary text (lmh): textbook form, alone and within GPT-2."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.oracles.conditioner_cases import check_padding, check_pooled_scores, check_whole_model, pooled
from tests.oracles.textbook import conditioning as textbook


def form(model: Any, row: Tensor, states: Tensor) -> Tensor:
    gpt2, project = model.backbone, model.conditioner.project
    read = textbook.gpt2_states(gpt2.transformer, row, {})
    both = torch.cat([gpt2.lm_head.weight, project.weight], 1)
    return textbook.lmh_scores(read, pooled(model, states), both, project.bias).log_softmax(-1)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_pooled_scores(pooling: str) -> None:
    check_pooled_scores(f"lmh:{pooling}", pooling)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_padding_says_nothing(pooling: str) -> None:
    check_padding(f"lmh:{pooling}")


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_whole_model(pooling: str) -> None:
    check_whole_model(f"lmh:{pooling}", form)
