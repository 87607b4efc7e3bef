"""Properties that compare two calls of the model whose answers must be equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from nextword.checking.property import Case, Deviation, Property, answers_about, compared
from nextword.checking.readers import BackboneReader, Reader, accepts, deviation
from nextword.model.head_cache.kv_cache import cache_argument

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

EXTRA = 3
"""Number of additional padding columns."""


def _same_twice(reader: Reader, case: Case) -> Iterator[Deviation]:
    yield compared("", reader.log_probs(case.sample.batch()), reader.log_probs(case.batch), case.batch)


def _future(reader: Reader, case: Case) -> Iterator[Deviation]:
    batch, length = case.batch, case.batch.ids.shape[1]
    for kept in sorted({1, length // 2, length - 1} - {0, length}):
        changed = batch.ids.clone()
        changed[:, kept:] = case.words.other(batch.ids[:, kept:])
        past = batch.position < kept - reader.lag
        found = reader.log_probs(replace(batch, ids=changed))[past]
        yield compared(f"tokens from {kept} on changed", found, reader.log_probs(batch)[past], batch, past)


def _other_sequences(reader: Reader, case: Case) -> Iterator[Deviation]:
    sample, batch, words = case.sample, case.batch, case.words
    for own in range(min(len(sample.rows), 3)):
        found = answers_about(reader, sample.only(own), 0)
        mine = batch.row == own
        expected = reader.log_probs(batch)[mine]
        yield compared(f"sequence {own} alone", found, expected, batch, mine)
        if len(sample.rows) == 1:
            continue
        rows = [words.other(row) for row in sample.rows]
        sources = None if sample.sources is None else [words.other(source) for source in sample.sources]
        found = answers_about(reader, sample.with_row(own, rows, sources), own)
        yield compared(f"all but sequence {own} changed", found, expected, batch, mine)
        shorter = [row[: (len(row) + 1) // 2] for row in rows]
        found = answers_about(reader, sample.with_row(own, shorter, sources), own)
        yield compared(f"all but sequence {own} shorter", found, expected, batch, mine)
        if sample.auxiliary is None or words.auxiliary is None:
            continue
        texts = [words.auxiliary.other(text) for text in sample.auxiliary]
        found = answers_about(reader, sample.with_row(own, sample.rows, auxiliary=texts), own)
        yield compared(f"all auxiliary texts but that of sequence {own} changed", found, expected, batch, mine)


def _padding(reader: Reader, case: Case) -> Iterator[Deviation]:
    expected = reader.log_probs(case.batch)
    more = case.sample.batch(extra=EXTRA)
    yield compared(f"{EXTRA} more on the right", reader.log_probs(more), expected, case.batch)
    if _has_positions(case.model):
        yield compared("on the left", reader.log_probs(case.left), expected, case.batch)
        more = case.sample.batch("left", extra=EXTRA)
        yield compared(f"{EXTRA} more on the left", reader.log_probs(more), expected, case.batch)


def _padding_contents(reader: Reader, case: Case) -> Iterator[Deviation]:
    for batch in _padded(case):
        words = case.words.other(batch.ids)
        changed = replace(batch, ids=torch.where(batch.mask, batch.ids, words))
        if batch.source_ids is not None and batch.source_mask is not None:
            other = case.words.other(batch.source_ids)
            changed = replace(changed, source_ids=torch.where(batch.source_mask, batch.source_ids, other))
        side = "left" if not batch.mask[:, 0].all() else "right"
        found = reader.log_probs(changed)
        yield compared(f"other tokens at the padding on the {side}", found, reader.log_probs(batch), batch)
        if isinstance(reader, BackboneReader):
            continue
        ids = torch.cat([batch.ids, words], 1)[batch.row]
        shares, expected = reader.distribution(changed).sources(ids), reader.distribution(batch).sources(ids)
        for name, share in expected.items():
            yield Deviation(f"source '{name}' of the tokens at the {side}", deviation(shares[name], share))


def _source_padding(reader: Reader, case: Case) -> Iterator[Deviation]:
    more = case.sample.batch(source_extra=EXTRA)
    variant = f"{EXTRA} more on the right of the source"
    yield compared(variant, reader.log_probs(more), reader.log_probs(case.batch), case.batch)


def _token_by_token(reader: Reader, case: Case) -> Iterator[Deviation]:
    found = reader.in_steps(case.batch, (1,))
    yield compared("padded on the right", found, reader.log_probs(case.batch), case.batch)
    if _has_positions(case.model):
        found = reader.in_steps(case.left, (1,))
        yield compared("padded on the left", found, reader.log_probs(case.left), case.left)


def _in_chunks(reader: Reader, case: Case) -> Iterator[Deviation]:
    for batch in _padded(case):
        half = (batch.ids.shape[1] + 1) // 2
        for sizes in ((3, 1, 2), (half,)):
            found = reader.in_steps(batch, sizes)
            yield compared(f"steps of {sizes} tokens", found, reader.log_probs(batch), batch)


def _reordered(reader: Reader, case: Case) -> Iterator[Deviation]:
    last = len(case.sample.rows) - 1
    order = torch.tensor([last, *range(1, last), 0] if last else [0], device=case.batch.ids.device)
    batch = case.left if _has_positions(case.model) else case.batch
    half = (batch.ids.shape[1] + 1) // 2
    if half == batch.ids.shape[1]:
        return  # with one token, no token follows the reordering
    for name, index in (("swapped", order), ("one sequence everywhere", torch.zeros_like(order))):
        chosen = batch.select(index)
        found = reader.in_steps(batch, (half,), index)
        yield compared(f"sequences {name} in the cache", found, reader.log_probs(chosen), chosen)


def _padded(case: Case) -> list[Any]:
    return [case.batch, case.left] if _has_positions(case.model) else [case.batch]


def _has_positions(model: NextWordModel) -> bool:
    # with left padding, the model needs the positions of tokens to distinguish text from padding
    if not hasattr(model, "backbone"):
        return False  # a scorer pads texts itself
    return not model.config.is_encoder_decoder and accepts(model, "position_ids")


def _no_kv_cache(model: NextWordModel) -> str:
    backbone = model.backbone
    if cache_argument(backbone) is None:
        return f"{type(backbone).__name__} keeps no KV cache"
    return "" if backbone._supports_default_dynamic_cache() else f"{type(backbone).__name__} uses its own kind of cache"


def _no_source(model: NextWordModel) -> str:
    if model.conditioner is not None:
        return "auxiliary padding is tested separately"
    return "" if model.config.is_encoder_decoder else "a decoder-only model has no source"


INVARIANCES = (
    Property(
        name="same twice",
        fault="not-repeatable",
        meaning="repeating the same input gives the same distribution",
        look_at="Look for dropout or sampling that does not check self.training.",
        measure=_same_twice,
        reruns=True,
    ),
    Property(
        name="future",
        fault="future",
        meaning="tokens after a position do not change its distribution",
        look_at="Check which memory entries a position may read: positions up to context.position, not later ones.",
        measure=_future,
        reruns=True,
    ),
    Property(
        name="other sequences",
        fault="batch-neighbour",
        meaning="the other sequences of the batch do not change a sequence's distributions",
        look_at="Check the use of context.row: a memory or source may be read without it, or there may be a mean "
        "over the batch.",
        measure=_other_sequences,
        reruns=True,
    ),
    Property(
        name="padding",
        fault="padding",
        meaning="the amount and the side of padding make no difference",
        look_at="Check memory.valid, and whether positions are counted from the first token and not from the start "
        "of the row.",
        measure=_padding,
        reruns=True,
    ),
    Property(
        name="padding contents",
        fault="padding",
        meaning="tokens at masked positions do not contribute to any probability",
        look_at="Check memory.valid and source.valid, because an entry at padding is visible.",
        measure=_padding_contents,
        reruns=True,
    ),
    Property(
        name="source padding",
        fault="source-padding",
        meaning="padding of the source makes no difference",
        look_at="Check source.valid.",
        measure=_source_padding,
        applies=_no_source,
        reruns=True,
    ),
    Property(
        name="cache, token by token",
        fault="cache",
        meaning="with a KV cache, one token at a time, the distributions are the same as without",
        look_at="Check that the head reads earlier positions only through streams() and context.memory.",
        measure=_token_by_token,
        applies=_no_kv_cache,
        reruns=True,
        of_the_cache=True,
    ),
    Property(
        name="cache, in chunks",
        fault="cache",
        meaning="with a KV cache, several tokens at a time, the distributions are the same as without",
        look_at="Check the use of context.position, the position in the whole memory and not in this step.",
        measure=_in_chunks,
        applies=_no_kv_cache,
        reruns=True,
        of_the_cache=True,
    ),
    Property(
        name="cache, reordered",
        fault="cache-reordered",
        meaning="after sequences are reordered in the KV cache, as in beam search, the head's memory is reordered too",
        look_at="Look for state that the head keeps outside its streams.",
        measure=_reordered,
        applies=_no_kv_cache,
        reruns=True,
        of_the_cache=True,
    ),
)
"""All properties of this module, in the order of the report."""
