"""Properties of position ids, of texts packed into one row, and of auxiliary texts."""

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
"""A model counts as supporting packing if restarted position ids change its answers about a packed text by more than
this share of the change that the other texts in the row cause without restarted position ids."""


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
    inputs = packed_row(reader.model, sample.rows)  # texts one after the other; the position ids restart at each text
    found = reader.answer(inputs, torch.ones_like(inputs["input_ids"], dtype=torch.bool))
    yield compared(f"{len(sample.rows)} texts in one row", found, alone, sample.batch())._replace(sample=sample)


def _as_many_as_fit(case: Case) -> ProbeSample:
    # some models have buffers for a fixed number of positions
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
        return f"{reason}, which would mark the beginning of a text"
    if carries_over(model):
        return f"{name} has recurrent layers or convolutions, which position_ids cannot restart"
    if not _tries_to(model):
        return f"{name} does not support packing: it looks past the beginning of a text"
    remembers = getattr(getattr(model, "next_word_head", None), "remembers", False)
    return (
        "the backbone lets packed texts see each other, so the head refuses them"
        if remembers and not parts_texts(model)
        else ""
    )


def _tries_to(model: NextWordModel) -> bool:
    """Whether restarting position ids change the attention. If they do not, the model does not support packing."""
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
        meaning="passing the default position_ids explicitly makes no difference",
        look_at="Check how default positions are counted, and how given ones are used.",
        measure=_positions_said,
        applies=_takes_no_positions,
        reruns=True,
    ),
    Property(
        name="packed rows",
        fault="packed-row",
        meaning="a text packed with others into one row, separated by position_ids, has the same distributions as "
        "alone",
        look_at="Check the attention mask between texts of a row, and anything else that reads along the row.",
        measure=_packed,
        applies=_keeps_no_texts_apart,
        nothing="two texts do not fit into one row of this model",
        reruns=True,
    ),
)
"""The properties of position ids and packed texts, in the order of the report."""


# -- Properties of conditioned models: the auxiliary text changes the answers, and padding around it does not.

_MISSED = 1.0
"""Deviation that is reported if answers about a sequence stay the same although its auxiliary text changes."""

_FAR = 100.0
"""Factor by which the test's values at padding are larger than real encoder states."""


def _dependence(reader: Reader, case: Case) -> Iterator[Deviation]:
    if isinstance(reader, BackboneReader) or reader.mode != getattr(case.model.next_word_head.config, "mode", "joint"):
        return  # for example a cache without a conditioner reads only the decoder's tokens
    # conditioner and head are tested separately: only the input of one of them gets another text
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
    """Positions at which ``a`` and ``b`` differ, in probabilities or in the components' contributions.

    Contributions are needed because an untrained partition gives its tokens the same scores as the softmax.
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
        return "the conditioner has no effect before training; train it, or use start = 'random'"
    return _unconditioned(model)


AUXILIARY = (
    Property(
        name="auxiliary text",
        fault="auxiliary-text",
        meaning="a different auxiliary text gives a different distribution at every position",
        look_at="Check what the conditioner keeps of the text, and whether it reaches the scores.",
        measure=_dependence,
        applies=_unheard,
        single=True,
    ),
    Property(
        name="auxiliary padding",
        fault="auxiliary-text",
        meaning="padding of the auxiliary text and its content make no difference",
        look_at="Check the mask in read() of the conditioner: pooling and attention must ignore padding.",
        measure=_padding,
        applies=_unconditioned,
        reruns=True,
    ),
)
"""The properties of auxiliary texts, in the order of the report."""
