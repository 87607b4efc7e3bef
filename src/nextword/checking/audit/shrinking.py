"""Searches for the smallest input that shows a fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from nextword.checking.probe_texts import ProbeSample
from nextword.checking.property import Property, Worst, worst_of

_TRIES = 60
"""Maximum number of smaller inputs that are tried."""


def shrunk(one: Property, worst: Worst, allowed: float) -> Worst:
    """Search for inputs smaller than that of ``worst`` on which ``one`` deviates by more than ``allowed``.

    Inputs with fewer texts are tried first, then shorter texts.

    Returns:
        The deviation on the smallest such input, or ``worst`` itself if none was found.
    """
    samples = _smaller(worst.case.sample)
    for _ in range(_TRIES):
        if (sample := next(samples, None)) is None:
            break
        found = _shown(one, worst, sample)
        if found is not None and found.found.value > allowed:
            worst, samples = found, _smaller(sample)
    return worst


def _shown(one: Property, worst: Worst, sample: ProbeSample) -> Worst | None:
    try:
        return worst_of(one, [worst.reader], [replace(worst.case, sample=sample)])
    except Exception:  # any error: an input that is too short for the question shows no fault
        return None


def _smaller(sample: ProbeSample) -> Iterator[ProbeSample]:
    """Yield samples with a part removed, large parts first. The first token is kept: it may be a start token."""
    sample = replace(sample, name="shortened")
    rows = sample.rows
    for row in range(len(rows)) if len(rows) > 1 else ():
        yield sample.only(*(other for other in range(len(rows)) if other != row))
    if sample.auxiliary is not None:
        return
    cut = max(len(row) for row in rows) // 2
    while cut:
        yield replace(sample, rows=tuple(row[:-cut] if len(row) > cut else row for row in rows))
        yield replace(sample, rows=tuple(_without(row, cut) for row in rows))
        cut //= 2


def _without(row: Tensor, cut: int) -> Tensor:
    return row if len(row) <= cut + 1 else row.new_tensor([int(row[0]), *row[1 + cut :].tolist()])
