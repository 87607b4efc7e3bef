"""Representative specs of every registered head, and models with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nextword as nw
from tests.helpers.counted import counts_file
from tests.helpers.families import FAMILIES, NARROW, is_encoder_decoder, tiny

SPECS: dict[str, Any] = {
    "softmax": "softmax",
    "softmax+proj": "softmax+proj",
    "softmax+mi": "softmax+mi",
    "sigsoftmax": "sigsoftmax",
    "mos:3": "mos:3",
    "mos:2,static": "mos:2,static",
    "mos:2,uniform": "mos:2,uniform",
    "mos:2+mi": "mos:2+mi",
    "cache": "cache:published",
    "cache,weight=0.3": {"head": "cache", "weight": 0.3},
    "softmax+c": "softmax+c",
    "softmax+p": "softmax+p",
    "softmax+r:3": "softmax+r:3",
    "softmax+cpr:3,8+mi": "softmax+cpr:3,8+mi",
    "softmax+cpr:3,8,add": {
        "head": "softmax",
        "partition": {
            "context": True, "pointer": True, "rerank": [3, 8], "mode": "add", "rerank_mode": "add",
            "candidates": "initial", "include_current": True,
        },
    },
    "softmax+e": "softmax+e",
    "softmax+cepr:3+mi": "softmax+cepr:3+mi",
    "mos:2+cpr:3,8+mi": "mos:2+cpr:3,8+mi",
    "copynet": "copynet",
    "pg": "pg",
    "ps": "ps",
    "ps+mi": "ps+mi",
    "f2": {"head": "f2", "counts": counts_file(), "prior": None},
    "f2:3,eq-token+mi": {"head": "f2", "counts": counts_file(), "division": "eq-token", "classes": 3, "mi": {}},
}  # fmt: skip
"""A head that is registered and stands here under no spec is checked under its bare name."""
ON_EVERY_FAMILY = ("softmax", "mos:2+cpr:3,8+mi", "softmax+cpr:3,8,add", "cache", "pg", "f2")
"""One of each kind of distribution, with and without memory, multiple inputs and partitions."""

ONE_OF_EACH_KIND = ("gpt2", "t5", "bart")


def specs() -> dict[str, Any]:
    """Name for the test run to spec, at least one for every registered head."""
    covered = {nw.heads.parse_head(spec).head for spec in SPECS.values()}
    return SPECS | {name: name for name in nw.heads.registry.names() if name not in covered}


def pairs(*families: str, every: tuple[str, ...] = ("gpt2",)) -> list[Any]:
    """Every family (or those named) with every head that it can carry, as parameters of a test.

    A head never sees the family behind its states, so the whole product is slow. Without it stay every head on the
    families of ``every`` (or on all families named, where those cannot carry it) and ``ON_EVERY_FAMILY``: all of these
    on one family of each kind, every second one in turn on the others.
    """
    refused = set(refused_pairs())
    carried = [(family, head) for family in families or FAMILIES for head in specs() if (family, head) not in refused]
    covered = {head for family, head in carried if family in every}
    turns = {family: turn for turn, family in enumerate(FAMILIES)}

    def marks(family: str, head: str) -> list[Any]:
        place = ON_EVERY_FAMILY.index(head) if head in ON_EVERY_FAMILY else None
        often = place is not None and (family in ONE_OF_EACH_KIND or (place + turns[family]) % 2 == 0)
        fast = family in every or often or (head not in covered and place is None)
        return [] if fast else [pytest.mark.slow]

    return [pytest.param(family, head, id=f"{family}-{head}", marks=marks(family, head)) for family, head in carried]


def refused_pairs(given: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """Pairs that make no sense: several layers side by side of another width, words of a source that is not there."""
    configs = {head: nw.heads.parse_head(spec) for head, spec in (given or specs()).items()}
    wide = [head for head, config in configs.items() if getattr(config, "mi", None)]
    of_source = [head for head, config in configs.items() if getattr(getattr(config, "partition", None), "encoder", 0)]
    decoders = [family for family in FAMILIES if not is_encoder_decoder(family)]
    return [(NARROW, head) for head in wide] + [(family, head) for family in decoders for head in of_source]


def with_head(
    family: str, spec: Any, objective: Any = "mle", dtype: torch.dtype = torch.float32, spread: float = 0.15
) -> Any:
    """A tiny model with a head whose parameters are no longer where they start.

    At the start a projection is the identity and multiple inputs count nothing, so half of a head would be out of play.
    """
    with torch.random.fork_rng(devices=[]):  # some parameters begin at random: the same in every call
        torch.manual_seed(4)
        model = nw.attach(tiny(family, dtype), spec, objective=objective)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.next_word_head.named_parameters():
        # local embeddings are products of two projections; on large states they would leave single precision behind
        own = spread / 2 if "partition.local" in name else spread
        parameter.data += own * torch.randn(parameter.shape, generator=generator).to(parameter)
    return model
