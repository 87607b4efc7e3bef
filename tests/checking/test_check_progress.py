"""Whoever waits for a check is told what is asked now."""

from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw


@pytest.mark.parametrize("head", ["softmax", None])
def test_progress_names_each_property_and_grows(head: str | None) -> None:
    torch.manual_seed(0)
    backbone = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=64))
    told: list[tuple[str, float]] = []
    model = backbone if head is None else nw.attach(backbone, head)
    report = nw.check(model, lengths=[1], progress=lambda name, share: told.append((name, share)))
    assert [name for name, _ in told] == [row.name for row in report.rows]
    assert [share for _, share in told] == [number / len(told) for number in range(len(told))]
