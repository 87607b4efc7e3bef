"""From one pass of the backbone to what a head is given: the context at all positions, or at some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from nextword.context import Context, Layout
from nextword.distribution import Vocabulary
from nextword.model.forward.backbone_pass import Observation


def context_at(model: Any, seen: Observation, positions: Bool[Tensor, "B T"]) -> Context:
    """The context at the given positions, row after row."""
    row, places = positions.nonzero(as_tuple=True)
    return _context(model, seen, Layout(row, len(positions)), places, lambda of_all: of_all[row, places])


def context_to_keep(model: Any, seen: Observation, keep: int | Tensor) -> Context:
    """The context at the last positions of every sequence (or which), as ``logits_to_keep`` names them; 0 for all."""
    batch, length, _ = seen.states.shape
    places = torch.arange(length, device=seen.states.device)
    if isinstance(keep, Tensor):
        kept = places[keep].expand(batch, -1)
        layout = Layout.full(batch, kept.shape[1], kept.device)
        return _context(model, seen, layout, kept.flatten(), lambda of_all: of_all[layout.row, kept.flatten()])
    # the same last places of every sequence are cut out, not looked up one by one
    last = slice(-keep, None)
    layout = Layout.full(batch, len(places[last]), places.device)
    return _context(model, seen, layout, places[last].repeat(batch), lambda of_all: of_all[:, last].flatten(0, 1))


def _context(model: Any, seen: Observation, layout: Layout, places: Tensor, of: Callable[[Tensor], Tensor]) -> Context:
    """The context at some places, with what gives their rows of (B, T, ...)."""
    output_layer: Vocabulary = seen.output_layer
    if seen.auxiliary is not None:
        output_layer = model.conditioner.output_layer(output_layer, seen.auxiliary.conditioner)
    states = of(seen.states)
    return Context(
        states=states,
        inputs=states if seen.inputs is seen.states else of(seen.inputs),
        position=places + seen.past,
        layout=layout,
        output_layer=output_layer,
        memory=seen.memory,
        source=seen.source,
        input_embedding=model.get_input_embeddings().weight,
        output_embedding=model.get_output_embeddings().weight,
    )
