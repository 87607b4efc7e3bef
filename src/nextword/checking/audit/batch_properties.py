"""Properties of texts side by side: neighbours, their lengths and the order change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from nextword.checking.property import Case, Deviation, Property, compared
from nextword.checking.ways_of_reading import Reader


def _neighbours(reader: Reader, case: Case) -> Iterator[Deviation]:
    sample, batch = case.sample, case.batch
    for own in range(len(sample.rows)):
        mine = batch.row == own
        if not own:  # the others would stand at another place alone
            alone = reader.log_probs(sample.alone(own).batch())
            yield compared("text 0 in a batch instead of alone", reader.log_probs(batch)[mine], alone, batch, mine)
        rows = [case.words.other(row) for row in sample.rows]
        sources = None if sample.sources is None else [case.words.other(source) for source in sample.sources]
        changed = sample.with_row(own, rows, sources).batch()
        found = reader.log_probs(changed)[mine]
        yield compared(f"all but text {own} changed", found, reader.log_probs(batch)[mine], batch, mine)


def _order(reader: Reader, case: Case) -> Iterator[Deviation]:
    batch = case.batch
    index = torch.arange(len(case.sample.rows), device=batch.ids.device).roll(1)
    moved = batch.select(index)
    expected = torch.cat([reader.log_probs(batch)[batch.row == row] for row in index.tolist()])
    yield compared("texts in another order", reader.log_probs(moved), expected, moved)


def _lengths(reader: Any, case: Case) -> Iterator[Deviation]:
    """Texts of several lengths in one call, against each alone; a scorer pads them as it likes."""
    texts = [[*text, text[0]] for text in reader.texts(case.batch)]
    together = reader.side_by_side(texts)
    for own, (text, found) in enumerate(zip(texts, together, strict=True)):
        mine = case.batch.row == own
        (expected,) = reader.asked([text])
        yield compared(f"text {own} beside texts of other lengths", found[1:], expected[1:], case.batch, mine)


def _cut(reader: Reader, case: Case) -> Iterator[Deviation]:
    """What was said of a text's beginning before the rest was there."""
    batch, length = case.batch, case.batch.ids.shape[1]
    for kept in sorted({1, (length + 1) // 2, length - 1} - {0, length}):
        short = replace(case.sample, rows=tuple(row[:kept] for row in case.sample.rows)).batch()
        told, told_short = batch.place < kept - reader.lag, short.place < kept - reader.lag
        found, expected = reader.log_probs(batch)[told], reader.log_probs(short)[told_short]
        yield compared(f"{length} tokens instead of {kept}", found, expected, batch, told)


CUT = Property(
    name="future, cut off",
    fault="future",
    meaning="how much comes after a position does not change its distribution",
    look_at="Look for anything that is computed from the length of the text.",
    measure=_cut,
    reruns=True,
)
NEIGHBOURS = Property(
    name="other texts",
    fault="batch-neighbour",
    meaning="the other texts of a batch change nothing",
    look_at="Look for a mean, a maximum, a store or a cache over the whole batch.",
    measure=_neighbours,
    reruns=True,
)
ORDER = Property(
    name="order",
    fault="order",
    meaning="the place of a text in its batch changes nothing",
    look_at="Look for what is kept by place in the batch, or for the first or last text.",
    measure=_order,
    reruns=True,
)
LENGTHS = Property(
    name="lengths",
    fault="padding",
    meaning="the lengths of the other texts, and so any padding, change nothing",
    look_at="Look at the mask: padding that is read, counted in a mean, or moves positions.",
    measure=_lengths,
    reruns=True,
)
