"""A loss is that of the text: the same alone, padded on the left and padded on the right, for every head and objective.

Padding is filled with other tokens of the vocabulary, labels included: what stands there must not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from tests.helpers.head_specs import ON_EVERY_FAMILY, pairs, specs, with_head
from tests.helpers.losses_of_texts import FEW, OBJECTIVES, loss_of, taken, texts

HEADS = specs()
LAYOUTS = {(6,): [("right", 3), ("left", 3)], (3, 8): [("left", 0)]}
"""Lengths of the texts of a batch, and paddings (side, and how much more than needed) that must not change its loss."""


def test_every_objective_stands_here() -> None:
    assert {nw.objectives.parse_objective(spec).objective for spec in OBJECTIVES.values()} == set(
        nw.objectives.registry.names()
    )


def laid_out(rows: list[Tensor], side: str, extra: int) -> tuple[Tensor, Tensor]:
    """Ids and mask (B, T), with other tokens at padding: as many as needed, and ``extra`` more."""
    width = max(map(len, rows)) + extra
    ids = torch.randint(3, 20, (len(rows), width), generator=torch.Generator().manual_seed(9))
    mask = torch.zeros_like(ids)
    for own, seen, row in zip(ids, mask, rows, strict=True):
        at = slice(width - len(row), None) if side == "left" else slice(0, len(row))
        own[at], seen[at] = row, 1
    return ids, mask


def arguments(model: Any, lengths: Sequence[int], side: str, extra: int) -> dict[str, Tensor]:
    """A batch with labels at every place; sources are padded on the same side as targets."""
    ids, mask = laid_out(texts(lengths, 1), side, extra)
    if not model.config.is_encoder_decoder:
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": ids,
            "position_ids": (mask.cumsum(1) - 1).clamp_min(0),
        }
    source, source_mask = laid_out(texts(lengths[::-1], 2), side, extra)
    return {
        "input_ids": source,
        "attention_mask": source_mask,
        "decoder_input_ids": ids,
        "decoder_attention_mask": mask,
        "labels": laid_out(texts(lengths, 3), side, extra)[0],
    }


def pairs_and_objectives() -> list[Any]:
    """Every head with a few objectives; all objectives with one head of each kind, and with the others slow."""
    return [
        pytest.param(
            *pair.values,
            names,
            id=f"{pair.id}-{which}",
            marks=pair.marks if which == "few" or pair.values[1] in ON_EVERY_FAMILY else [pytest.mark.slow],
        )
        for pair in pairs("gpt2", "t5")
        for which, names in {"few": FEW, "others": [name for name in OBJECTIVES if name not in FEW]}.items()
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize(("family", "head", "objectives"), pairs_and_objectives())
def test_loss_alone_is_the_loss_when_padded(family: str, head: str, objectives: Sequence[str]) -> None:
    model = with_head(family, HEADS[head], dtype=torch.float64)
    model.train().backbone.eval()
    names = taken(model, objectives)
    assert objectives != FEW or set(names) == set(FEW)
    for name in names:
        for lengths, layouts in LAYOUTS.items():
            expected, gradient = loss_of(model, OBJECTIVES[name], arguments(model, lengths, "right", 0))
            for side, extra in layouts:
                found, own = loss_of(model, OBJECTIVES[name], arguments(model, lengths, side, extra))
                where = f"{name}, {extra} more on the {side}: {found} for {expected}"
                torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12, msg=where)
                torch.testing.assert_close(own, gradient, rtol=1e-7, atol=1e-10, msg=where)
