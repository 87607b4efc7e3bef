"""Representative specs of every registered head, and models with them."""

from __future__ import annotations

from typing import Any

import torch

import nextword as nw
from conformance.families import FAMILIES, NARROW, tiny

SPECS: dict[str, Any] = {
    "softmax": "softmax",
    "softmax+proj": "softmax+proj",
    "softmax+mi": "softmax+mi",
    "sigsoftmax": "sigsoftmax",
    "mos:3": "mos:3",
    "mos:2,static": "mos:2,static",
    "mos:2,uniform": "mos:2,uniform",
    "mos:2+mi": "mos:2+mi",
    "cache": "cache",
    "cache,weight=0.3": {"head": "cache", "weight": 0.3},
}
"""A head that is registered and stands here under no spec is checked under its bare name."""


def specs() -> dict[str, Any]:
    """Name for the test run to spec, at least one for every registered head."""
    covered = {nw.heads.parse_head(spec).head for spec in SPECS.values()}
    return SPECS | {name: name for name in nw.heads.registry.names() if name not in covered}


def pairs(*families: str) -> list[tuple[str, str]]:
    """Every family (or those named) with every head that it can carry."""
    found = [(family, head) for family in families or FAMILIES for head in specs()]
    return [pair for pair in found if pair not in refused_pairs()]


def refused_pairs() -> list[tuple[str, str]]:
    """Pairs that make no sense."""
    return [(NARROW, head) for head, spec in specs().items() if getattr(nw.heads.parse_head(spec), "mi", None)]


def with_head(
    family: str, spec: Any, objective: Any = "mle", dtype: torch.dtype = torch.float32, spread: float = 0.15
) -> Any:
    """A tiny model with a head whose parameters are no longer where they start.

    At the start a projection is the identity and multiple inputs count nothing, so half of a head would be out of play.
    """
    model = nw.attach(tiny(family, dtype), spec, objective=objective)
    generator = torch.Generator().manual_seed(5)
    for parameter in model.next_word_head.parameters():
        parameter.data += spread * torch.randn(parameter.shape, generator=generator).to(parameter)
    return model
