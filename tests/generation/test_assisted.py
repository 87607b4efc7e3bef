"""Assisted decoding: rejected candidates are forgotten by the keys, the values and the head alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.helpers.generating_models import DECODERS, ENCODER_DECODERS, NEW, assistant, crossed, headed, pairs, prompt
from tests.helpers.recomputation import assert_as_recomputed, generated

ALL = {**DECODERS, **ENCODER_DECODERS}


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{helper}-{name}": (helper, mode)
    for helper in ("plain", "headed")
    for name, mode in {"greedy": {}, "sampling": {"do_sample": True}}.items()
}
"""Whether the assistant has a head, and how is generated."""


@pytest.mark.few(2)
@pytest.mark.parametrize(("family", "head", "way"), crossed(pairs(ALL), WAYS))
def test_assistant(family: str, head: str, way: tuple[str, dict[str, Any]], crops: list[int]) -> None:
    (helper, mode), model, ids = way, headed(family, head), prompt(1)
    helper_model = assistant(family, head if helper == "headed" else None)
    out = generated(model, ids, max_new_tokens=NEW, assistant_model=helper_model, **mode)
    if not mode:
        assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids})
    if model.next_word_head.remembers:
        assert max(crops) > 0, "no candidate was rejected, so nothing was tested"


@pytest.mark.few(5)
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


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_assisted_call_goes_on(family: str, head: str) -> None:
    """The returned cache has lost every rejected candidate."""
    model, ids = headed(family, head), prompt(1)
    first = generated(model, ids, max_new_tokens=NEW, assistant_model=assistant(family, None))
    mask = torch.ones_like(first.sequences)
    past = first.past_key_values
    second = generated(model, first.sequences, attention_mask=mask, past_key_values=past, max_new_tokens=NEW)
    assert_as_recomputed(model, second, {"input_ids": ids})
