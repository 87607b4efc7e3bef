"""Properties of positions: saying where tokens stand changes nothing, and texts packed into one row stay apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nextword.checking.invariance_properties import EXTRA
from nextword.checking.probe_texts import Batch, ProbeSample
from nextword.checking.property import EXACT, EXACT_IN_HALF, Case, Deviation, Property, compared
from nextword.checking.readers import BackboneReader, Reader, accepts, deviation
from nextword.distribution import NextToken
from nextword.model.forward.packing import carries_over, first_position, packed_row, parts_texts, readings

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

_SEPARATED = 0.01
"""A model that tries to do so changes at least this share."""


def _positions_said(reader: Reader, case: Case) -> Iterator[Deviation]:
    batch, inputs = case.batch, reader.inputs(case.batch)
    positions = inputs.pop("position_ids")
    said = reader.answer(inputs | {"position_ids": positions + first_position(case.model)}, batch.mask)
    yield compared("given instead of left out", said, reader.answer(inputs, batch.mask), batch)


def _packed(reader: Reader, case: Case) -> Iterator[Deviation]:
    sample = _as_many_as_fit(case)
    if len(sample.rows) < 2:
        return
    alone = torch.cat([reader.log_probs(sample.only(row).batch()) for row in range(len(sample.rows))])
    inputs = packed_row(reader.model, sample.rows)  # one after the other, and positions say where each begins
    found = reader.answer(inputs, torch.ones_like(inputs["input_ids"], dtype=torch.bool))
    yield compared(f"{len(sample.rows)} texts in one row", found, alone, sample.batch())._replace(sample=sample)


def _as_many_as_fit(case: Case) -> ProbeSample:
    # some models have buffers for so many positions and no more
    rows, longest = list(case.sample.rows), case.words.longest
    while longest is not None and rows and sum(len(row) for row in rows) > longest:
        rows.pop()
    return replace(case.sample, rows=tuple(rows))


def _takes_no_positions(model: NextWordModel) -> str:
    if model.config.is_encoder_decoder:
        return "an encoder-decoder model counts its positions itself"
    return "" if accepts(model, "position_ids") else f"{type(model.backbone).__name__} takes no position_ids"


def _keeps_no_texts_apart(model: NextWordModel) -> str:
    name = type(model.backbone).__name__
    if model.config.is_encoder_decoder:
        return "an encoder-decoder model has one source for a row"
    if model.conditioner is not None:
        return "a conditioned model has one auxiliary text for a row"
    if reason := _takes_no_positions(model):
        return f"{reason}, which would say where a text begins"
    if carries_over(model):
        return f"{name} has recurrent layers or convolutions, which no position_ids begin anew"
    if not _tries_to(model):
        return f"{name} does not support packing: it looks past the beginning of a text"
    remembers = getattr(getattr(model, "next_word_head", None), "remembers", False)
    return (
        "the head refuses texts that the backbone lets see each other" if remembers and not parts_texts(model) else ""
    )


def _tries_to(model: NextWordModel) -> bool:
    """Whether positions that begin anew change what is looked at; else the model knows of no second text."""
    found = readings(model)
    if found is None:
        return False
    smallest = EXACT.get(found.alone.dtype, EXACT_IN_HALF)
    kept_apart = deviation(found.apart, found.together)
    return kept_apart > max(smallest, _SEPARATED * deviation(found.alone, found.together))


POSITIONS = (
    Property(
        name="position ids",
        fault="position-ids",
        meaning="saying where the tokens stand, as they stand anyway, changes nothing",
        look_at="Look at how positions are counted where none are given, and at what is read from given ones.",
        measure=_positions_said,
        applies=_takes_no_positions,
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


# -- Properties of conditioned models: the auxiliary text matters, and nothing that stands beside it does.

_MISSED = 1.0
"""Deviation of a sequence that does not do what it must."""

_FAR = 100.0
"""Times the size of real states: what stands at padding instead."""


def _dependence(reader: Reader, case: Case) -> Iterator[Deviation]:
    if isinstance(reader, BackboneReader) or reader.mode != getattr(case.model.next_word_head.config, "mode", "joint"):
        return  # a cache alone, say, knows the decoder's tokens only
    # conditioner and head each by itself: what the one reads stays as it is while the other has another text
    batch, other = case.batch, _with_other_texts(case)
    if not case.model.conditioner.is_neutral:
        found = reader.log_probs(replace(batch, aux_ids=other.aux_ids))
        yield from _unmoved("tokens for the conditioner", batch, (found != reader.log_probs(batch)).any(-1))
    if batch.source_ids is not None:
        copied = reader.distribution(replace(batch, source_ids=other.source_ids))
        yield from _unmoved("words to copy", batch, _differs(copied, reader.distribution(batch)))


def _with_other_texts(case: Case) -> Batch:
    sample, words = case.sample, case.words.auxiliary
    assert sample.auxiliary is not None
    assert words is not None
    return replace(sample, auxiliary=tuple(words.other(text) for text in sample.auxiliary)).batch()


def _differs(a: NextToken, b: NextToken) -> Tensor:
    """At which positions two distributions differ, be it only in where a probability comes from.

    A partition that has not learned anything yet scores its words as the softmax does.
    """
    log_probs = a.log_probs()
    every = torch.arange(a.vocab_size, device=log_probs.device).expand(len(log_probs), -1)
    differs = (log_probs != b.log_probs()).any(-1)
    shares, others = a.sources(every), b.sources(every)
    for name in shares:
        differs |= (shares[name] != others[name]).any(-1)
    return differs


def _unmoved(what: str, batch: Batch, changed: Tensor) -> Iterator[Deviation]:
    for row in range(len(batch.ids)):
        own = changed[batch.row == row]
        still = int((~own).sum())
        variant = f"other {what}, sequence {row} is the same at {still} of {len(own)} positions"
        yield Deviation(variant, _MISSED if still else 0.0)


def _padding(reader: Reader, case: Case) -> Iterator[Deviation]:
    expected = reader.log_probs(case.batch)
    more = case.sample.batch(source_extra=EXTRA)
    yield Deviation(f"{EXTRA} more", deviation(reader.log_probs(more), expected))
    if isinstance(reader, BackboneReader):
        return
    assert more.aux_ids is not None
    assert more.aux_mask is not None
    assert case.words.auxiliary is not None
    tokens = torch.where(more.aux_mask, more.aux_ids, case.words.auxiliary.tokens(more.aux_ids))
    changed = replace(more, aux_ids=tokens)
    if more.source_ids is not None and more.source_mask is not None:
        words = torch.where(more.source_mask, more.source_ids, case.words.other(more.source_ids))
        changed = replace(changed, source_ids=words)
    yield Deviation("other tokens there", deviation(reader.log_probs(changed), expected))
    states = case.model.encode(more.aux_ids, more.aux_mask.long())
    yield Deviation("encoded beforehand", deviation(reader.log_probs(replace(more, aux_states=states)), expected))
    far = torch.where(more.aux_mask[..., None], states, _FAR * states.abs().amax())
    yield Deviation("other states there", deviation(reader.log_probs(replace(more, aux_states=far)), expected))


def _unconditioned(model: NextWordModel) -> str:
    return "the model has no conditioner" if model.conditioner is None else ""


def _unheard(model: NextWordModel) -> str:
    if model.conditioner is not None and model.conditioner.is_neutral and not model.next_word_head.reads_source:
        return "the conditioner adds nothing yet: train it, or begin with start = 'random'"
    return _unconditioned(model)


AUXILIARY = (
    Property(
        name="auxiliary text",
        fault="auxiliary-text",
        meaning="another auxiliary text gives another distribution at every position",
        look_at="Look at what the conditioner keeps of the text, and whether it reaches the scores.",
        measure=_dependence,
        applies=_unheard,
        single=True,
    ),
    Property(
        name="auxiliary padding",
        fault="auxiliary-text",
        meaning="padding of the auxiliary text, and what stands there, changes nothing",
        look_at="Look at the mask in read() of the conditioner: pooling and attention must leave padding out.",
        measure=_padding,
        applies=_unconditioned,
        reruns=True,
    ),
)
"""All of them, in the order of the report."""
