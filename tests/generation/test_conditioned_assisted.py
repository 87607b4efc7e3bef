"""Assisted decoding of conditioned models: candidates of a plain model, of a conditioned one, or of the prompt."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import nextword as nw
from tests.helpers.conditioned_generating_models import FEW, auxiliary, model_of
from tests.helpers.conditioned_models import texts
from tests.helpers.generating_models import NEW, backbone, prompt
from tests.helpers.recomputation import assert_as_recomputed, generated


@cache
def helper(family: str, conditioner: str | None, head: str | None) -> Any:
    """The backbone with a little noise: right now and then."""
    model = backbone(family)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    if head is None:
        return model
    if conditioner is None:
        return nw.attach(model, head)
    own = model_of(family, conditioner, head)
    twin = nw.attach(model, head, conditioner=own.conditioner.config, encoder=own.auxiliary_encoder)
    twin.conditioner.load_state_dict(own.conditioner.state_dict())
    return twin


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("bare", {}), ("plain", {"do_sample": True}), ("conditioned", {}), ("conditioned", {"do_sample": True})],
)
@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_assistant(family: str, conditioner: str, head: str, kind: str, mode: dict[str, Any], crops: list[int]) -> None:
    model, ids = model_of(family, conditioner, head), prompt(1)
    own = head if head in ("softmax", "cache", "pg") else "softmax"
    if kind == "conditioned":
        assistant = helper(family, "dau" if conditioner.startswith("prefix") else conditioner, own)
    else:
        assistant = helper(family, None, None if kind == "bare" else own)
    aux = auxiliary(model, 1)
    out = generated(model, ids, max_new_tokens=NEW, assistant_model=assistant, **aux, **mode)
    assert_as_recomputed(model, out, {"input_ids": ids, **aux})
    if not mode:
        assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW, **aux).tolist()
    assert max(crops) > 0, "no candidate was rejected, so nothing was tested"
    mask = torch.ones_like(out.sequences)
    second = generated(
        model, out.sequences, attention_mask=mask, past_key_values=out.past_key_values, max_new_tokens=NEW
    )
    assert_as_recomputed(model, second, {"input_ids": ids, **aux})


@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_prompt_lookup(family: str, conditioner: str, head: str) -> None:
    model, ids = model_of(family, conditioner, head), prompt(1).repeat(1, 2)
    aux = auxiliary(model, 1)
    out = generated(model, ids, max_new_tokens=NEW, prompt_lookup_num_tokens=3, **aux)
    assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW, **aux).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids, **aux})


def test_assistants_that_are_none() -> None:
    ids, aux = prompt(1), texts((5,))
    with pytest.raises(ValueError, match="'prefix'"):
        model_of("gpt2", "dau", "softmax").generate(
            ids, max_new_tokens=2, assistant_model=model_of("gpt2", "prefix:3", "softmax"), **aux
        )
    with pytest.raises(ValueError, match="aux_input_ids: missing"):
        nw.attach(backbone("gpt2"), "softmax").generate(
            ids, max_new_tokens=2, assistant_model=model_of("gpt2", "dau", "softmax")
        )
