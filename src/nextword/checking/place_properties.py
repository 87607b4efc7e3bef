"""Properties of places: saying where tokens stand changes nothing, and texts packed into one row stay apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.checking.probe_texts import Sample
from nextword.checking.property import EXACT, EXACT_IN_HALF, Case, Deviation, Property, compared
from nextword.checking.ways_of_reading import BackboneReader, Reader, accepts, deviation

_SEPARATED = 0.01
"""Of what keeping texts apart changes, a model that tries to do so changes at least this share."""

_NO_ATTENTION = {"conv", "hybrid", "hybrid_sliding", "linear_attention"}
"""Kinds of layers, by the names that transformers gives them, that have no mask."""


def _places_said(reader: Reader, case: Case) -> Iterator[Deviation]:
    batch, inputs = case.batch, reader.inputs(case.batch)
    places = inputs.pop("position_ids")
    said = reader.answer(inputs | {"position_ids": places + _first_place(case.model)}, batch.mask)
    yield compared("given instead of left out", said, reader.answer(inputs, batch.mask), batch)


def _packed(reader: Reader, case: Case) -> Iterator[Deviation]:
    sample = _as_many_as_fit(case)
    if len(sample.rows) < 2:
        return
    alone = torch.cat([reader.log_probs(sample.alone(row).batch()) for row in range(len(sample.rows))])
    found = _in_one_row(reader, sample.rows)
    yield compared(f"{len(sample.rows)} texts in one row", found, alone, sample.batch())._replace(sample=sample)


def _as_many_as_fit(case: Case) -> Sample:
    """The texts of a case that have room in one row; some models have buffers for so many places and no more."""
    rows, longest = list(case.sample.rows), case.words.longest
    while longest is not None and rows and sum(len(row) for row in rows) > longest:
        rows.pop()
    return replace(case.sample, rows=tuple(rows))


def _in_one_row(reader: Reader, rows: tuple[Tensor, ...], **more: Any) -> Float[Tensor, "N V"]:
    """Answers about texts that stand in one row one after the other, and whose places say where each begins."""
    ids = torch.cat(rows)[None]
    inputs = {"input_ids": ids, "position_ids": _restarting(rows) + _first_place(reader.model), **more}
    if accepts(reader.model, "use_cache"):
        inputs["use_cache"] = False  # with a cache, transformers looks for no second text
    return reader.answer(inputs, torch.ones_like(ids, dtype=torch.bool))


def _restarting(rows: tuple[Tensor, ...]) -> Int[Tensor, "1 T"]:
    return torch.cat([torch.arange(len(row), device=row.device) for row in rows])[None]


def _first_place(model: Any) -> int:
    """The place of a first token: 0, or what follows the place that RoBERTa and its kin keep for padding."""
    named = model.backbone.named_modules()
    tables = [part for name, part in named if isinstance(part, nn.Embedding) and "position" in name.rpartition(".")[2]]
    kept = [table.padding_idx for table in tables if table.padding_idx is not None]
    return max(kept) + 1 if kept else 0


def _takes_no_places(model: Any) -> str:
    if model.config.is_encoder_decoder:
        return "an encoder-decoder model counts its places itself"
    return "" if accepts(model, "position_ids") else f"{type(model.backbone).__name__} takes no position_ids"


def _keeps_no_texts_apart(model: Any) -> str:
    """Why a model promises nothing about several texts in one row; nothing where it does."""
    name = type(model.backbone).__name__
    if model.config.is_encoder_decoder:
        return "an encoder-decoder model has one source for a row"
    if model.conditioner is not None:
        return "a conditioned model has one auxiliary text for a row"
    if reason := _takes_no_places(model):
        return f"{reason}, which would say where a text begins"
    if getattr(getattr(model, "next_word_head", None), "remembers", False):
        return "the head remembers a row, and refuses to read two texts in one"
    if _carries_over(model):
        return f"{name} has recurrent layers or convolutions, which no position_ids begin anew"
    return "" if _tries_to(model) else f"{name} does not support packing: it looks past the beginning of a text"


def _carries_over(model: Any) -> bool:
    """Whether layers that are no attention hand something on from place to place."""
    kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or [])
    return getattr(model.backbone, "_is_stateful", False) or bool(kinds & _NO_ATTENTION)


def _tries_to(model: Any) -> bool:
    """Whether places that begin anew change what is looked at.

    Transformers parts the texts of a row by their places where there is no mask and no cache. With a mask of ones the
    same places are read and nothing is parted: who answers alike both times knows of no second text.
    """
    reader = BackboneReader(model)
    device, known = model.get_input_embeddings().weight.device, model.get_input_embeddings().weight.shape[0]
    rows = tuple(torch.arange(start, start + 4, device=device) % known for start in (3, 5, 9))
    last = slice(-len(rows[-1]), None)
    try:
        parted = _in_one_row(reader, rows)[last]
        whole = _in_one_row(reader, rows, attention_mask=torch.ones(1, 12, dtype=torch.long, device=device))[last]
    except Exception:  # of anything: it cannot read a row without a mask, so it cannot be given two texts
        return False
    alone = _in_one_row(reader, rows[-1:])
    smallest = EXACT.get(alone.dtype, EXACT_IN_HALF)
    return deviation(parted, whole) > max(smallest, _SEPARATED * deviation(alone, whole))


PLACES = (
    Property(
        name="position ids",
        fault="position-ids",
        meaning="saying where the tokens stand, as they stand anyway, changes nothing",
        look_at="Look at how places are counted where none are given, and at what is read from given ones.",
        measure=_places_said,
        applies=_takes_no_places,
        reruns=True,
    ),
    Property(
        name="packed rows",
        fault="packed-row",
        meaning="a text in a row with others, told apart by position_ids, has the answers that it has alone",
        look_at="Look at the attention mask between texts of a row, and for anything else that reads along the row.",
        measure=_packed,
        applies=_keeps_no_texts_apart,
        nothing="no two texts have room in one row of this model",
        reruns=True,
    ),
)
"""All of them, in the order of the report."""
