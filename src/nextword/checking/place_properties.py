"""Properties of places: saying where tokens stand changes nothing, and texts packed into one row stay apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.checking.probe_texts import Sample
from nextword.checking.property import EXACT, EXACT_IN_HALF, Case, Deviation, Property, compared
from nextword.checking.ways_of_reading import Reader, accepts, deviation
from nextword.model.forward.packing.parting_backbones import (
    carries_over,
    first_position,
    packed_row,
    parts_texts,
    readings,
)

_SEPARATED = 0.01
"""Of what keeping texts apart changes, a model that tries to do so changes at least this share."""


def _places_said(reader: Reader, case: Case) -> Iterator[Deviation]:
    batch, inputs = case.batch, reader.inputs(case.batch)
    places = inputs.pop("position_ids")
    said = reader.answer(inputs | {"position_ids": places + first_position(case.model)}, batch.mask)
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


def _in_one_row(reader: Reader, rows: tuple[Tensor, ...]) -> Float[Tensor, "N V"]:
    """Answers about texts that stand in one row one after the other, and whose places say where each begins."""
    inputs = packed_row(reader.model, rows)
    return reader.answer(inputs, torch.ones_like(inputs["input_ids"], dtype=torch.bool))


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
    if carries_over(model):
        return f"{name} has recurrent layers or convolutions, which no position_ids begin anew"
    if not _tries_to(model):
        return f"{name} does not support packing: it looks past the beginning of a text"
    remembers = getattr(getattr(model, "next_word_head", None), "remembers", False)
    return (
        "the head refuses texts that the backbone lets see each other" if remembers and not parts_texts(model) else ""
    )


def _tries_to(model: Any) -> bool:
    """Whether places that begin anew change what is looked at; who answers alike both times knows of no second text."""
    found = readings(model)
    if found is None:
        return False
    smallest = EXACT.get(found.alone.dtype, EXACT_IN_HALF)
    kept_apart = deviation(found.apart, found.together)
    return kept_apart > max(smallest, _SEPARATED * deviation(found.alone, found.together))


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
