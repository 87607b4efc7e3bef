"""Properties of conditioned models: the auxiliary text matters, and nothing that stands beside it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nextword.checking.invariance_properties import EXTRA
from nextword.checking.probe_texts import Batch
from nextword.checking.property import Case, Deviation, Property
from nextword.checking.ways_of_reading import BackboneReader, Reader, deviation
from nextword.distribution import NextToken

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
        variant = f"other {what}, sequence {row} is the same at {still} of {len(own)} places"
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


def _unconditioned(model: Any) -> str:
    return "the model has no conditioner" if model.conditioner is None else ""


def _unheard(model: Any) -> str:
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
