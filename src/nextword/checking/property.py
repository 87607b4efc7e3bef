"""What a property is to the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nextword.checking.findings import CheckRow, Finding
from nextword.checking.probe_texts import Batch, ProbeSample, ProbeWords
from nextword.checking.readers import Reader, deviation, in_blocks

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


class Deviation(NamedTuple):
    """What one variant showed.

    Args:
        variant: What was tried.
        value: How far it is from what must hold.
        at: Where that was and what stood there, as a person would say it; empty where there is no more to say.
        sample: The texts, where they are others than those of the case.
    """

    variant: str
    value: float
    at: str = ""
    sample: ProbeSample | None = None


def compared(
    variant: str,
    found: Float[Tensor, "N K"],
    expected: Float[Tensor, "N K"],
    batch: Batch,
    kept: Bool[Tensor, "B_T"] | None = None,
) -> Deviation:
    """The deviation of answers from those that they must equal, with the position and the token that show it most.

    The answers, log-probabilities, are those of a batch, or those of them that are ``kept``.
    """
    value = deviation(found, expected)
    if value <= EXACT.get(found.dtype, 0.0):
        return Deviation(variant, value)  # passes whatever else is allowed, so nothing is to be said of it
    # probabilities, for a person: a difference of logarithms is largest where it matters least
    moved = torch.cat([_most_moved(*block) for block in in_blocks(found, expected)])
    where = int(moved[:, 0].argmax())
    token = int(moved[where, 1])
    row, position = (int((part if kept is None else part[kept])[where]) for part in (batch.row, batch.position))
    name = f"token {token}" if found.shape[1] > 1 else "the next token"
    was, now = (float(part[where, token].double().exp()) for part in (expected, found))
    return Deviation(
        variant, value, f"after {position + 1} tokens of text {row}, {name} has {now:.4g} instead of {was:.4g}"
    )


def answers_about(reader: Reader, sample: ProbeSample, own: int) -> Float[Tensor, "N K"]:
    """Answers about one sequence of a sample."""
    batch = sample.batch()
    return reader.log_probs(batch)[batch.row == own]


def _most_moved(found: Float[Tensor, "n K"], expected: Float[Tensor, "n K"]) -> Float[Tensor, "n 2"]:
    """For each row the largest difference of probabilities, and the token that has it."""
    moved = (found.double().exp() - expected.double().exp()).abs().nan_to_num(nan=torch.inf)
    most, token = moved.max(1)
    return torch.stack([most, token.double()], 1)


@dataclass(frozen=True, eq=False)
class Case:
    """One sample under check, the wrapped model, and random tokens for changed texts."""

    model: NextWordModel
    words: ProbeWords
    sample: ProbeSample

    @cached_property
    def batch(self) -> Batch:
        """The sequences padded on the right, which every model can read."""
        return self.sample.batch()

    @cached_property
    def left(self) -> Batch:
        """The sequences padded on the left."""
        return self.sample.batch("left")


@dataclass(frozen=True)
class Property:
    """Something that must hold for every distribution.

    Args:
        name: Short name.
        meaning: What holds if it passes.
        look_at: What to look at where it fails.
        fault: What it is called when it fails.
        measure: Gives a deviation for every variant tried on one sample in one mode.
        applies: Says why the property has no meaning for a model; empty where it has.
        nothing: What the report says where there was nothing to measure.
        single: Whether one answer is looked at by itself; all others compare two, whose scores were computed twice, and
            in half precision no two products of different shapes agree.
        reruns: Whether the backbone ran twice for it, too.
        of_the_cache: Whether it is about continuing from a cache. Some backbones continue to other scores than they
            give in one pass (Mamba in chunks); then nothing can be said of the head.
        limit: The largest deviation that passes, where no precision decides it.
        in_single: Whether transformers computes a part of it in float32, also in a model of float64.
        exact: Says of a reader and a text what rounding does to a right answer, where the tables by precision do not.
    """

    name: str
    meaning: str
    look_at: str
    fault: str
    measure: Callable[[Reader, Case], Iterator[Deviation]]
    applies: Callable[[Any], str] = lambda model: ""
    nothing: str = "nothing to compare"
    single: bool = False
    reruns: bool = False
    of_the_cache: bool = False
    limit: float | None = None
    in_single: bool = False
    exact: Callable[[Any, Case], float] | None = None

    def row(self, worst: float | None, tolerance: float, where: str, error: Exception | None = None) -> CheckRow:
        """What was found of it."""
        return CheckRow(self.name, self.meaning, worst, tolerance, where, self.look_at, error)

    def tolerance(self, precision: torch.dtype) -> float:
        """What the tables say for a model of this precision."""
        return EXACT.get(self._format(precision), EXACT_IN_HALF)

    def most(self, precision: torch.dtype) -> float:
        """What rounding of the backbone excuses at most."""
        return LIMIT.get(self._format(precision), LIMIT_IN_HALF)

    def _format(self, precision: torch.dtype) -> torch.dtype:
        """In which its numbers are computed by a model of this precision."""
        if self.in_single and precision == torch.float64:
            return torch.float32
        return at_least_single(precision) if self.single else precision


def at_least_single(precision: torch.dtype) -> torch.dtype:
    """Format in which log-probabilities are computed, whatever the model's precision."""
    return torch.float64 if precision == torch.float64 else torch.float32


EXACT = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Largest deviation that passes, by precision."""
EXACT_IN_HALF = 1e-2

LIMIT = {torch.float64: 1e-8, torch.float32: 1e-3}
"""Rounding in the backbone can excuse no more than this."""
LIMIT_IN_HALF = 0.3

SHARE_OF_ROUNDING = 8.0
"""How many times the bare backbone's own deviation a head may deviate: it adds up and divides what rounding left."""


# -- Measuring a property in every mode on every sample, and keeping the worst of it.


@dataclass(frozen=True, eq=False)
class Worst:
    """The deviation that is farthest beyond what is allowed, who was asked, and on which texts."""

    found: Deviation
    reader: Reader
    case: Case

    @property
    def said(self) -> str:
        """Variant, position and numbers, as far as there are any."""
        return ": ".join(part for part in (self.found.variant, self.found.at) if part) or self.where

    @property
    def where(self) -> str:
        """Mode, text and variant, in a line."""
        return ", ".join(part for part in (self.reader.name, self.case.sample.name, self.found.variant) if part)


def finding_of(one: Property, worst: Worst, tolerance: float, smallest: Worst | None = None) -> Finding:
    """A failed property as a user would say it: where it fails most, and the smallest input if one was looked for."""
    shown = smallest or worst
    texts = tuple(tuple(row.tolist()) for row in (shown.found.sample or shown.case.sample).rows)
    sentence = f"{FAULTS[one.fault]}: {worst.said}"
    return Finding(one.fault, sentence, worst.found.value, tolerance, texts, shown.said)


def worst_of(
    one: Property, readers: Sequence[Reader], cases: Sequence[Case], allowed: Callable[[Reader], float] = lambda _: 1.0
) -> Worst | None:
    """The worst of a property, in units of what is tolerated of each reader; None if there was nothing to measure."""
    worst, most = None, -1.0
    for reader in readers:
        unit = allowed(reader)
        for case in cases:
            for found in one.measure(reader, case):
                if found.value / unit >= most:
                    worst, most = Worst(found, reader, case), found.value / unit
    return worst


# -- The names of all faults that an audit can find. They are stable: programs may compare them.

FAULTS = {
    "negative": "a number is the logarithm of no probability: NaN, or above 0",
    "sum": "the probabilities of all tokens do not add up to 1",
    "not-repeatable": "the same question has another answer when it is asked again",
    "scored-before": "a text that was scored before is more probable the second time",
    "state-left-over": "a text that was scored before changes the answers about another one",
    "future": "what comes later in a text, the scored token included, changes what was said before",
    "batch-neighbour": "the other texts of a batch change the answers about a text",
    "order": "the position of a text in its batch changes the answers about it",
    "padding": "the lengths of the other texts, or the padding that follows from them, change the answers",
    "position-ids": "saying where tokens stand, as they stand anyway, changes the answers",
    "packed-row": "another text in the same row, told apart by position_ids, changes the answers",
    "source-padding": "padding of the source changes the answers",
    "cache": "reading in steps, with what is kept between them, gives other answers than reading at once",
    "cache-reordered": "what is kept between steps does not move along when beam search reorders",
    "score-is-not-its-steps": "what a text is scored with is not what the steps through it say",
    "total": "the total of a text is not the sum over its tokens, each counted once",
    "unscored-token": "a token has no probability, so a text with it cannot be scored",
    "sampling": "sampled tokens are not as frequent as their probabilities say",
    "bytes": "bits per byte do not count every byte of the text once",
    "precision": "the answers change by more than rounding when the model computes in another precision",
    "distribution": "two answers about one distribution contradict each other",
    "auxiliary-text": "an auxiliary text is ignored, or what stands beside it is not",
}
"""Each with what it means, in the order in which they are looked for: an earlier one can be the cause of a later."""
