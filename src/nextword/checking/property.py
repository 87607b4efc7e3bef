"""Properties that the checker tests, the deviations from them, and the names of faults."""

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
    """The deviation from a property in one variant of its test.

    Args:
        variant: Name of the variant, such as "padded on the left".
        value: Size of the deviation.
        at: Description of the position and the values that deviate; empty if unknown.
        sample: The texts that deviate; None: the texts of the test case.
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
    """Deviation of ``found`` from ``expected``, described by the token whose probability differs most.

    ``found`` and ``expected`` are log-probabilities at all tokens of ``batch``, or only where ``kept`` is True.
    """
    value = deviation(found, expected)
    if value <= EXACT.get(found.dtype, 0.0):
        return Deviation(variant, value)  # always within the tolerance, so no description is needed
    # described by probabilities, because differences of logarithms are largest for improbable tokens
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
    """The log-probabilities at the tokens of sequence ``own``, from a call with all sequences of ``sample``."""
    batch = sample.batch()
    return reader.log_probs(batch)[batch.row == own]


def _most_moved(found: Float[Tensor, "n K"], expected: Float[Tensor, "n K"]) -> Float[Tensor, "n 2"]:
    """For each row, the largest difference between probabilities in ``found`` and ``expected``, and its token."""
    moved = (found.double().exp() - expected.double().exp()).abs().nan_to_num(nan=torch.inf)
    most, token = moved.max(1)
    return torch.stack([most, token.double()], 1)


@dataclass(frozen=True, eq=False)
class Case:
    """One test case: the model, texts (``sample``), and a generator of random tokens for changed texts (``words``)."""

    model: NextWordModel
    words: ProbeWords
    sample: ProbeSample

    @cached_property
    def batch(self) -> Batch:
        """``sample`` as a batch padded on the right, which every model supports."""
        return self.sample.batch()

    @cached_property
    def left(self) -> Batch:
        """``sample`` as a batch padded on the left."""
        return self.sample.batch("left")


@dataclass(frozen=True)
class Property:
    """A property that every distribution must have.

    Args:
        name: Short name.
        meaning: Statement that is true if the property passes.
        look_at: Advice on what to check in the code after a failure.
        fault: Name of the fault after a failure, one of ``FAULTS``.
        measure: Function of a reader and a test case that yields the deviation of each variant of the test.
        applies: Function of a model that returns why the property does not apply; an empty text if it applies.
        nothing: Text for the report if ``measure`` yields nothing.
        single: Whether the property is about a single answer. Otherwise it compares two answers that are computed
            separately, which in half precision never agree exactly.
        reruns: Whether the backbone runs twice for this property, so that the tolerance allows for its rounding.
        of_the_cache: Whether the property is about continuing from a cache. If the backbone itself gives other scores
            with its cache (Mamba in chunks), the head is not tested.
        limit: Largest deviation that passes in an audit; None: it depends on the precision.
        in_single: Whether transformers computes a part of the compared numbers in float32 even in a float64 model.
        exact: Function of a reader and a test case that returns the tolerance in an audit; None: ``tolerance`` is used.
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
        """Make this property's row of the report; the arguments are those of ``CheckRow``."""
        return CheckRow(self.name, self.meaning, worst, tolerance, where, self.look_at, error)

    def tolerance(self, precision: torch.dtype) -> float:
        """Largest deviation that passes for a model of this ``precision``, without an allowance for the backbone."""
        return EXACT.get(self._format(precision), EXACT_IN_HALF)

    def most(self, precision: torch.dtype) -> float:
        """Largest deviation that may be due to rounding of the backbone, for a model of this precision."""
        return LIMIT.get(self._format(precision), LIMIT_IN_HALF)

    def _format(self, precision: torch.dtype) -> torch.dtype:
        """Precision in which a model of this precision computes the property's numbers."""
        if self.in_single and precision == torch.float64:
            return torch.float32
        return at_least_single(precision) if self.single else precision


def at_least_single(precision: torch.dtype) -> torch.dtype:
    """Precision of a model's log-probabilities: float64 if the model's ``precision`` is float64, otherwise float32."""
    return torch.float64 if precision == torch.float64 else torch.float32


EXACT = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Largest deviation that passes, by precision. ``EXACT_IN_HALF`` is for half precision."""
EXACT_IN_HALF = 1e-2

LIMIT = {torch.float64: 1e-8, torch.float32: 1e-3}
"""Largest deviation that may be due to rounding of the backbone. ``LIMIT_IN_HALF`` is for half precision."""
LIMIT_IN_HALF = 0.3

SHARE_OF_ROUNDING = 8.0
"""Factor by which a head's answers may deviate more than those of the backbone alone, because the head sums and divides
rounded numbers."""


# -- Measuring a property in every mode on every sample. The worst result is kept.


@dataclass(frozen=True, eq=False)
class Worst:
    """The deviation with the largest ratio to its tolerance, and the reader and the test case that showed it."""

    found: Deviation
    reader: Reader
    case: Case

    @property
    def said(self) -> str:
        """The deviation's variant, position and numbers, as far as they are known, or else ``where``."""
        return ": ".join(part for part in (self.found.variant, self.found.at) if part) or self.where

    @property
    def where(self) -> str:
        """Mode, text and variant of the deviation, in one line."""
        return ", ".join(part for part in (self.reader.name, self.case.sample.name, self.found.variant) if part)


def finding_of(one: Property, worst: Worst, tolerance: float, smallest: Worst | None = None) -> Finding:
    """Make the finding about the failed property ``one`` from its ``worst`` deviation.

    The finding's texts are those of ``smallest``, the deviation on a smaller input; None: those of ``worst``.
    """
    shown = smallest or worst
    texts = tuple(tuple(row.tolist()) for row in (shown.found.sample or shown.case.sample).rows)
    sentence = f"{FAULTS[one.fault]}: {worst.said}"
    return Finding(one.fault, sentence, worst.found.value, tolerance, texts, shown.said)


def worst_of(
    one: Property, readers: Sequence[Reader], cases: Sequence[Case], allowed: Callable[[Reader], float] = lambda _: 1.0
) -> Worst | None:
    """Measure ``one`` with all ``readers`` on all ``cases``; return the deviation with the largest ratio to tolerance.

    ``allowed`` returns the tolerance for a reader. The result is None if ``one.measure`` yields nothing.
    """
    worst, most = None, -1.0
    for reader in readers:
        unit = allowed(reader)
        for case in cases:
            for found in one.measure(reader, case):
                if found.value / unit >= most:
                    worst, most = Worst(found, reader, case), found.value / unit
    return worst


# -- The names of all faults that an audit can find. They never change, because programs may compare them.

FAULTS = {
    "negative": "a log-probability is NaN or above 0",
    "sum": "the probabilities of all tokens do not add up to 1",
    "not-repeatable": "the same question has a different answer when repeated",
    "scored-before": "a text is more probable when it is scored a second time",
    "state-left-over": "scoring a text changes the answers about another text",
    "future": "later tokens of a text, or the scored token itself, change earlier answers",
    "batch-neighbour": "the other texts of a batch change the answers about a text",
    "order": "the position of a text in its batch changes the answers about it",
    "padding": "the lengths of the other texts, and so the padding, change the answers",
    "position-ids": "passing the default position_ids explicitly changes the answers",
    "packed-row": "another text in the same row, separated by position_ids, changes the answers",
    "source-padding": "padding of the source changes the answers",
    "cache": "reading in steps with a cache gives other answers than reading at once",
    "cache-reordered": "the cache is not reordered with the texts in beam search",
    "score-is-not-its-steps": "the probabilities of a whole text differ from those step by step",
    "total": "the total of a text is not the sum over its tokens, each counted once",
    "unscored-token": "a token has probability 0, so a text with it cannot be scored",
    "sampling": "the frequencies of sampled tokens differ from their probabilities",
    "bytes": "bits per byte do not count every byte of the text once",
    "precision": "the answers change by more than rounding when the model computes in another precision",
    "distribution": "two answers about the same distribution contradict each other",
    "auxiliary-text": "an auxiliary text is ignored, or its padding is not",
}
"""Faults by name, with their meaning, in the order of testing. An earlier fault can cause a later one."""
