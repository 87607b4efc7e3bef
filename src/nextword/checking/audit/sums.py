"""Sums of probabilities: how they are added up, how far from 1 rounding can bring them, where the excess lies."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.checking.audit.scorer_reading import OBSERVED, ways_of
from nextword.checking.audit.statistics import FALSE_ALARM_EXACT
from nextword.checking.property import Case, Deviation, Property, at_least_single
from nextword.checking.ways_of_reading import Reader, in_blocks

_SUMS = 10_000
"""Sums that one audit makes at most."""

_LARGEST_SCORE = 256.0
"""Scores of this size are normalised without loss of more than their rounding; those of language models are smaller."""

_MOSTLY = 1 / 3
"""Where tokens seen before hold the excess and not much more, it is theirs."""

_AT_ONCE = 4096
"""Continuations in one call."""

MANY = 20_000
"""Continuations that are asked for at once and for each text; a larger vocabulary takes a while."""

FEW_PREFIXES = 2
"""Prefixes whose continuations are asked for where there are more."""


def compensated_sum(values: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """The sum over the last dimension in float64, as exact as its result can be written.

    Pairs are added, then pairs of these sums, and what each addition rounds off is kept (Knuth's two-sum) and added in
    the end: the error is that of one rounding, plus that of rounding the kept parts, however many values there are.

    >>> compensated_sum(torch.tensor([1e16, 1.0, -1e16, 1.0]))
    tensor(2., dtype=torch.float64)
    """
    values = values.double()
    kept = values.new_zeros(values.shape[:-1])
    while values.shape[-1] > 1:
        if values.shape[-1] % 2:
            values = torch.nn.functional.pad(values, (0, 1))
        a, b = values[..., ::2], values[..., 1::2]
        total = a + b
        taken = total - a
        kept = kept + ((a - (total - taken)) + (b - taken)).sum(-1)
        values = total
    return values[..., 0] + kept


def sum_tolerance(answers: torch.dtype, computed: torch.dtype, vocabulary: int) -> float:
    r"""How far from 1 rounding can bring a sum of V probabilities that were normalised with care.

    ``u_c (s + log V + lambda sqrt(V)) + u_a log V``: computing a logarithm rounds relative to scores of size s and to
    itself; the normaliser is a sum of V terms in any order, whose rounding errors add up to more than
    ``lambda sqrt(V) u`` with chance ``2 exp(-lambda^2 / 2)`` (Higham and Mary 2019, theorem 2.4), which is set to the
    false alarms allowed; and answers handed over in a coarser format are rounded once more, relative to themselves,
    which moves the sum by no more than ``u_a`` times the entropy.

    Args:
        answers: Format of the answers.
        computed: Format in which they were normalised; half precision is no excuse for a sum.
        vocabulary: V.
    """
    sure = math.sqrt(2 * math.log(2 * _SUMS / FALSE_ALARM_EXACT))
    rounding = torch.finfo(computed).eps / 2
    coarse = torch.finfo(answers).eps / 2 if torch.finfo(answers).eps > torch.finfo(computed).eps else 0.0
    width = math.log(vocabulary)
    return rounding * (_LARGEST_SCORE + width + sure * math.sqrt(vocabulary)) + coarse * width


def _rounding(reader: Any, case: Case) -> float:
    """How far from 1 it can bring the sums of this reader."""
    answer = reader.log_probs(case.batch)
    vocabulary = getattr(reader, "vocabulary", answer.shape[1])
    return sum_tolerance(answer.dtype, at_least_single(reader.precision), vocabulary)


def _sums(reader: Reader, case: Case) -> Iterator[Deviation]:
    if reader.mode == OBSERVED:
        return
    log_probs = reader.log_probs(case.batch)
    totals = torch.cat([compensated_sum(rows.double().exp()) for (rows,) in in_blocks(log_probs)])
    off = (totals - 1).abs().nan_to_num(nan=0.0)  # "finite" says what is to be said of NaN
    where = int(off.argmax())
    row, place = int(case.batch.row[where]), int(case.batch.place[where])
    text = case.batch.ids[row][case.batch.mask[row]][: place + 1]
    yield Deviation("", float(off[where]), _excess(text.tolist(), float(totals[where]), log_probs[where]))


def _excess(text: list[int], total: float, log_probs: Float[Tensor, "V"]) -> str:
    """Position and total, as a person says it, and whether the tokens of the text hold the excess."""
    said = f"position {len(text)} assigns {total:.6g} in total"
    if not total > 1:
        return f"{said}; {1 - total:.4g} is missing"
    seen = sorted(set(text))
    held = float(log_probs[seen].double().exp().sum())
    if held >= total - 1 > _MOSTLY * held:
        return f"{said}; the excess is on tokens seen before, which hold {held:.4g}"
    return f"{said}; tokens seen before hold {held:.4g} of it"


def _sums_of_continuations(reader: Any, case: Case) -> Iterator[Deviation]:
    if reader.mode != OBSERVED:
        return
    vocabulary = reader.vocabulary
    for text in reader.texts(case.batch)[: max(1, MANY // vocabulary)]:
        prefix = text[: max(1, len(text) // 2)]
        found = [
            torch.stack([answer[-1, 0] for answer in reader.asked([[*prefix, token] for token in tokens.tolist()])])
            for tokens in _watched(torch.split(torch.arange(vocabulary), _AT_ONCE))
        ]
        log_probs = torch.cat(found)
        total = float(compensated_sum(log_probs.double().exp()))
        variant = f"all {vocabulary:,} continuations of {len(prefix)} tokens asked for"
        yield Deviation(variant, abs(total - 1), _excess(prefix, total, log_probs))


def _watched(parts: Sequence[Tensor]) -> Iterable[Tensor]:
    """The parts, with a bar on a terminal where they are many."""
    if len(parts) * _AT_ONCE <= MANY or not sys.stderr.isatty():
        return parts
    from rich.console import Console
    from rich.progress import track

    return track(parts, "asking for every continuation", console=Console(stderr=True), transient=True)


def continuations(vocabulary: int, thorough: bool) -> Property:
    """The question about all continuations; of a large vocabulary only a thorough audit asks it.

    Asking for some of them would prove no sum: what is missing may be on the others.
    """
    if thorough or vocabulary <= MANY:
        return CONTINUATIONS
    costly = f"{vocabulary:,} continuations of a prefix are asked for by a thorough check only"
    return replace(CONTINUATIONS, applies=lambda scorer: _none_observed(scorer) or costly)


def _none_observed(scorer: Any) -> str:
    return "" if OBSERVED in ways_of(scorer) else "every distribution is there whole"


SUMS = Property(
    name="sums to one",
    fault="sum",
    meaning="the probabilities of all tokens add up to 1 after every prefix",
    look_at="Look at the normaliser: every share that is handed out must be in it, once.",
    measure=_sums,
    single=True,
    exact=_rounding,
)
CONTINUATIONS = Property(
    name="continuations",
    fault="sum",
    meaning="the probabilities of all continuations add up to 1, where only observed tokens are scored",
    look_at="Look for what is learned from the scored token itself, and at the normaliser.",
    measure=_sums_of_continuations,
    applies=_none_observed,
    exact=_rounding,
)
