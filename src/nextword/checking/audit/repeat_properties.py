"""Properties of asking again: what was scored before, be it this text or another, changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.checking.probe_texts import Batch, Sample
from nextword.checking.property import Case, Deviation, Property, compared
from nextword.checking.ways_of_reading import Reader

_TEXTS = 4
"""Texts that are asked about twice."""

_SURE = 4.0
"""Standard errors that a mean gain must be above 0, to be no mere noise: by chance once in 30,000 audits."""


@dataclass(frozen=True, eq=False)
class Repetition:
    """Texts that were not asked about before, each with two answers at once after each other.

    Args:
        gains: What each observed token gains in nats, where both numbers are finite.
        found: Of each text, how far the second answer is from the first.
    """

    gains: Float[Tensor, "K"]
    found: tuple[Deviation, ...]

    @classmethod
    def of(cls, reader: Reader, samples: Sequence[Sample]) -> Repetition:
        """Asks twice about each text; answers, which may be large, are held for one text at a time."""
        gains, found = [], []
        for sample in samples:
            batch = sample.batch()
            # a new batch: answers about one batch are kept
            first, second = reader.log_probs(batch), reader.log_probs(sample.batch())
            gains.append(_gains(first, second, batch))
            found.append(compared("", second, first, batch)._replace(sample=sample))
        return cls(torch.cat(gains), tuple(found))

    @property
    def was_learned(self) -> bool:
        """Whether tokens became more probable, rather than now more and now less."""
        if len(self.gains) < 2 or not self.gains.any():
            return False
        error = float(self.gains.std()) / math.sqrt(len(self.gains))
        return float(self.gains.mean()) > _SURE * error

    def deviations(self, variant: str, said: str = "") -> Iterator[Deviation]:
        """Of the second answer from the first."""
        for found in self.found:
            yield found._replace(variant=variant, at=said + found.at)


def _again(reader: Reader, case: Case) -> Iterator[Deviation]:
    found = _repetition(reader, case)
    if not found.was_learned:
        yield from found.deviations("asked again at once")


def _scored_before(reader: Reader, case: Case) -> Iterator[Deviation]:
    found = _repetition(reader, case)
    yield Deviation("scored a second time", 0.0)
    if found.was_learned:
        mean = float(found.gains.mean())
        yield from found.deviations("scored a second time", f"tokens gain {mean:.3g} nats each; ")


def _left_over(reader: Reader, case: Case) -> Iterator[Deviation]:
    before = reader.log_probs(case.sample.batch())
    reader.log_probs(_fresh(case).batch())
    yield compared("after another text was scored", reader.log_probs(case.sample.batch()), before, case.batch)


def _untouched(reader: Any, case: Case) -> Iterator[Deviation]:
    """What a copy says that was made before anything was asked."""
    texts = reader.texts(case.batch)
    # a text that shares its end with one that was asked about, and no beginning
    half = (len(texts[0]) + 1) // 2
    start = case.words.other(case.batch.ids[0, :half])
    sample = case.words.sample("another beginning", [torch.cat([start, case.batch.ids[0, half:]])])
    reader.log_probs(case.sample.batch())
    found, expected = reader.log_probs(sample.batch()), reader.untouched().log_probs(sample.batch())
    yield compared("against a copy made before all questions", found, expected, sample.batch())._replace(sample=sample)


_repetitions: WeakKeyDictionary[Case, dict[Reader, Repetition]] = WeakKeyDictionary()


def _repetition(reader: Reader, case: Case) -> Repetition:
    """The same for both properties, which tell one fault from the other."""
    known = _repetitions.setdefault(case, {})
    if reader not in known:
        known[reader] = Repetition.of(reader, [_fresh(case) for _ in range(_TEXTS)])
    return known[reader]


def _fresh(case: Case) -> Sample:
    """A text as long as the case's, not asked about before."""
    return case.words.sample("another text", [case.words.text(len(case.sample.rows[0]))])


def _gains(first: Tensor, second: Tensor, batch: Batch) -> Float[Tensor, "K"]:
    """Of one text: differences of the log-probabilities of observed tokens."""
    ids, last = batch.ids[batch.mask], batch.row != batch.row.roll(-1)
    last[-1] = True
    if first.shape[1] == 1:
        gains = (second - first)[~last][:, 0]
    else:
        targets = ids.roll(-1)[~last].to(first.device)
        gains = (second - first)[~last.to(first.device)].gather(1, targets[:, None])[:, 0]
    return gains[torch.isfinite(gains)].double()


UNTOUCHED = Property(
    name="untouched copy",
    fault="state-left-over",
    meaning="a copy that was asked nothing before gives the same answers",
    look_at="Look for answers that are kept under a key that two texts share, and for what is learned from texts.",
    measure=_untouched,
)
REPEATS = (
    Property(
        name="asked again",
        fault="not-repeatable",
        meaning="the same question has the same answer at once after the first",
        look_at="Look for dropout, sampling, or a time or counter that the answer depends on.",
        measure=_again,
    ),
    Property(
        name="scored before",
        fault="scored-before",
        meaning="a text is not more probable once it was scored",
        look_at="Look for a store, a cache or weights that take in the text that is scored.",
        measure=_scored_before,
    ),
    Property(
        name="left over",
        fault="state-left-over",
        meaning="another text scored in between changes nothing",
        look_at="Look for a cache or store that is not emptied between texts.",
        measure=_left_over,
    ),
)
"""All of them, in the order of the report."""
