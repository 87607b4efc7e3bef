"""A model that is made on the meta device and filled afterwards is the one that is made at once, every part of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import nextword as nw
from tests.helpers.conditioned_models import CONDITIONERS, encoder
from tests.helpers.families import inputs, tiny
from tests.helpers.head_specs import refused_pairs, specs

HEADS = specs()
OBJECTIVES: dict[str, Any] = {name: name for name in nw.objectives.registry.names()} | {"mle+seq": "mle+seq:8x8"}
FAMILY_OF = {head: "t5" if ("gpt2", head) in refused_pairs(HEADS) else "gpt2" for head in HEADS}
GARBAGE = 77


@torch.no_grad()
def on_meta_first(made: Any) -> Any:
    """The same configuration on the meta device, then on a CPU full of what happens to lie there."""
    with torch.device("meta"):
        model = type(made)(copy.deepcopy(made.config))
    model.to_empty(device="cpu").tie_weights()
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.fill_(GARBAGE)
    return model


def started(model: Any) -> dict[str, torch.Tensor]:
    """All tensors after transformers has initialised the model again, from one seed."""
    for module in model.modules():
        module._is_hf_initialized = False
    torch.manual_seed(0)
    model.init_weights()
    return dict(model.named_parameters()) | dict(model.named_buffers())


def made_later(attached: Any) -> Any:
    """The model that was made on the meta device, after a look whether it is the one that is made at once."""
    model = on_meta_first(attached)
    now, later = started(type(attached)(copy.deepcopy(attached.config))), started(model)
    assert now.keys() == later.keys()
    assert not [name for name in now if not torch.equal(now[name], later[name])]
    return model.eval()


@pytest.mark.few(7)
@pytest.mark.parametrize("head", HEADS)
def test_every_head(head: str) -> None:
    model = made_later(nw.attach(tiny(FAMILY_OF[head]), HEADS[head]))
    mass = model.distribution(**inputs(model)).log_probs().exp().sum(-1)
    torch.testing.assert_close(mass, torch.ones_like(mass))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective(objective: str) -> None:
    made_later(nw.attach(tiny("gpt2"), "cache", OBJECTIVES[objective]))


@pytest.mark.few(5)
@pytest.mark.parametrize("conditioner", CONDITIONERS)
def test_every_conditioner(conditioner: str) -> None:
    made_later(nw.attach(tiny("gpt2"), "softmax", conditioner=CONDITIONERS[conditioner], encoder=encoder()))
