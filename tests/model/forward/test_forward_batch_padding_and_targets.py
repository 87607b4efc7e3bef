"""Which labels are targets: shifted here or before, behind padding, holes and caches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

import nextword as nw
from tests.helpers.families import tiny

IDS = torch.randint(3, 20, (2, 6), generator=torch.Generator().manual_seed(0))
OTHERS = torch.randint(3, 20, (2, 6), generator=torch.Generator().manual_seed(1))

EVERY_UPDATE = {"objective": "unlikelihood", "seq": {"rate": 1.0, "prefix": 3, "continuation": 60, "n": 1}}
"""A sequence update, with more tokens than there are words, so that one comes again."""


def model_with(head: str, family: str = "llama", objective: Any = "mle") -> Any:
    return nw.attach(tiny(family, torch.float64), head, objective).eval()


def summed(model: Any, ids: Tensor, positions: Tensor, **inputs: Any) -> Tensor:
    """The negative log-likelihood of the tokens behind some places (B, T)."""
    log_probs = model.distribution(ids, positions=positions, **inputs).log_prob(ids.roll(-1, 1)[positions][:, None])
    return -log_probs.sum()


@torch.no_grad()
def test_shifted_labels_win_as_in_transformers() -> None:
    bare = tiny("llama", torch.float64)
    shifted = OTHERS.index_fill(1, torch.tensor([1]), -100)
    expected = bare(IDS, labels=IDS, shift_labels=shifted).loss
    assert expected != bare(IDS, labels=IDS).loss
    model = model_with("softmax")
    for labels in (IDS, None):
        torch.testing.assert_close(model(IDS, labels=labels, shift_labels=shifted).loss.float(), expected)


@torch.no_grad()
@pytest.mark.parametrize("head", ["softmax+c", "cache", "mos:2"])
@pytest.mark.parametrize("objective", ["mle", "unlikelihood", "mle:labels"])
def test_shifted_labels_are_labels_shifted(head: str, objective: str) -> None:
    if objective == "mle:labels" and head != "cache":
        return
    model = model_with(head, objective=objective)
    shifted = torch.nn.functional.pad(IDS[:, 1:], (0, 1), value=-100)
    torch.testing.assert_close(
        model(IDS, labels=IDS, shift_labels=shifted).loss, model(IDS, labels=IDS).loss, rtol=1e-12, atol=0
    )


@pytest.mark.slow
def test_sequence_updates_count_shifted_labels() -> None:
    model = model_with("softmax", objective=EVERY_UPDATE)
    model.train().backbone.eval()
    few = torch.full_like(IDS, -100).index_fill(1, torch.tensor([5]), 4)  # the last place, which labels never reach
    shares = {}
    for name, given in {"labels": {"labels": IDS}, "both": {"labels": IDS, "shift_labels": few}}.items():
        torch.manual_seed(0)
        loss = model(IDS, num_items_in_batch=1, **given).loss
        shares[name] = loss.detach() / model.loss_parts["sequence_loss"]
    assert model.loss_parts["sequence_loss"] > 0
    assert {name: round(float(share)) for name, share in shares.items()} == {"labels": 10, "both": 2}


@torch.no_grad()
@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_a_hole_predicts_nothing_and_is_not_predicted(head: str) -> None:
    model = model_with(head)
    mask = torch.ones_like(IDS)
    mask[0, 2] = 0
    positions = mask.bool() & mask.roll(-1, 1).bool()
    positions[:, -1] = False
    expected = summed(model, IDS, positions, attention_mask=mask) / positions.sum()
    torch.testing.assert_close(model(IDS, attention_mask=mask, labels=IDS).loss, expected)


@torch.no_grad()
def test_a_mask_of_four_dimensions_says_nothing_of_padding() -> None:
    model = model_with("softmax")
    causal = torch.ones(2, 1, 6, 6, dtype=torch.bool).tril()
    expected = model(IDS, labels=IDS).loss
    torch.testing.assert_close(model(IDS, attention_mask=causal, labels=IDS).loss, expected)


@torch.no_grad()
@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_the_first_token_after_a_cache_was_predicted_before(head: str) -> None:
    model, mask = model_with(head), torch.ones_like(IDS)
    mask[0, 0] = 0
    kv_cache = model(
        IDS[:, :3], attention_mask=mask[:, :3], past_key_values=DynamicCache(), use_cache=True
    ).past_key_values
    found = model(IDS[:, 3:], attention_mask=mask, past_key_values=kv_cache, labels=IDS[:, 3:]).loss
    positions = torch.zeros_like(IDS, dtype=torch.bool)
    positions[:, 3:-1] = True
    torch.testing.assert_close(found, summed(model, IDS, positions, attention_mask=mask) / positions.sum())
