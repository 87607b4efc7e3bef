"""Assisted decoding: rejected candidates are forgotten by the keys, the values and the head alike."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.memory.growing_history import GrowingHistory
from tests.helpers.generating_models import DECODERS, ENCODER_DECODERS, HEADS, NEW, backbone, headed, pairs, prompt
from tests.helpers.recomputation import assert_as_recomputed, generated

ALL = {**DECODERS, **ENCODER_DECODERS}


@cache
def assistant(family: str, head: str | None) -> Any:
    """The backbone of ``headed`` with a little noise: right now and then, and with a head of its own or none."""
    model = backbone(family)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    if head is None:
        return model
    if head.startswith("f2"):  # decoupled by itself, which an assistant must not be
        return nw.attach(model, HEADS[head] | {"decoupled": True})
    # its cache is left blunt, or it would copy what the sharp one copies and never be wrong
    return nw.attach(model, head.removeprefix("source "))


@pytest.fixture
def crops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many places each crop of a history took back."""
    taken: list[int] = []
    crop = GrowingHistory.crop

    def counted(self: GrowingHistory, change: int) -> None:
        taken.append(-change)
        crop(self, change)

    monkeypatch.setattr(GrowingHistory, "crop", counted)
    return taken


@pytest.mark.parametrize("mode", [{}, {"do_sample": True}], ids=["greedy", "sampling"])
@pytest.mark.parametrize("helper", ["plain", "headed"])
@pytest.mark.parametrize(("family", "head"), pairs(ALL))
def test_assistant(family: str, head: str, helper: str, mode: dict[str, Any], crops: list[int]) -> None:
    model, ids = headed(family, head), prompt(1)
    helper_model = assistant(family, head if helper == "headed" else None)
    out = generated(model, ids, max_new_tokens=NEW, assistant_model=helper_model, **mode)
    if not mode:
        assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids})
    if model.next_word_head.remembers:
        assert max(crops) > 0, "no candidate was rejected, so nothing was tested"


@pytest.mark.parametrize(("family", "head"), pairs(ALL))
def test_prompt_lookup(family: str, head: str) -> None:
    model, ids = headed(family, head), prompt(1).repeat(1, 2)
    out = generated(model, ids, max_new_tokens=NEW, prompt_lookup_num_tokens=3)
    assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids})


@pytest.mark.parametrize("family", ENCODER_DECODERS)
@pytest.mark.parametrize(("head", "other"), [("softmax", "source cache"), ("source cache", "softmax")])
def test_assistant_that_reads_the_source_otherwise(family: str, head: str, other: str) -> None:
    """The source's words are handed to whom they belong."""
    model, ids = headed(family, head), prompt(1)
    out = generated(model, ids, max_new_tokens=NEW, assistant_model=assistant(family, other))
    assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids})


@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_assisted_call_goes_on(family: str, head: str) -> None:
    """The returned cache has lost every rejected candidate."""
    model, ids = headed(family, head), prompt(1)
    first = generated(model, ids, max_new_tokens=NEW, assistant_model=assistant(family, None))
    mask = torch.ones_like(first.sequences)
    past = first.past_key_values
    second = generated(model, first.sequences, attention_mask=mask, past_key_values=past, max_new_tokens=NEW)
    assert_as_recomputed(model, second, {"input_ids": ids})
