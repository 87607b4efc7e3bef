"""The audit tests a scorer, or a model without a nextword head, for every property that applies to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nextword.checking.audit.model_properties import DOUBLE, LOSS, ROUNDED, BareModel, ModelReader
from nextword.checking.audit.sampling_properties import (
    FALSE_ALARM_EXACT,
    FALSE_ALARM_SAMPLED,
    FEW_PREFIXES,
    GENERATING,
    MANY,
    MISSED,
    SAMPLING,
    SUMS,
    continuations,
    share_found,
)
from nextword.checking.audit.scorer import ScorerReader, copy_of, ways_of
from nextword.checking.audit.scorer_properties import (
    BYTES,
    CUT,
    LENGTHS,
    NEIGHBOURS,
    ORDER,
    REPEATS,
    STEPS,
    TOTALS,
    UNSCORED,
    UNTOUCHED,
)
from nextword.checking.audit.shrinking import shrunk
from nextword.checking.distribution_properties import ANSWERS
from nextword.checking.findings import CheckReport, CheckRow, Finding
from nextword.checking.invariance_properties import INVARIANCES
from nextword.checking.position_properties import POSITIONS
from nextword.checking.probe_texts import ProbeWords, given_sample
from nextword.checking.property import SHARE_OF_ROUNDING, Case, Property, finding_of, worst_of
from nextword.checking.readers import Reader, deviation

Progress = Callable[[str, float], None]
"""Progress function. It gets the current test's name and the finished share of all tests."""

_KNOWN = {one.name: one for one in (*ANSWERS, *INVARIANCES)}
_IN_STEPS = "cache, token by token"
_NOT_REPEATED = ("asked again", "scored before", "left over", "untouched copy")
"""Names of properties. If one fails, answers change from call to call, so later properties are not tested."""


@dataclass(frozen=True, eq=False)
class AuditQuestion:
    """A property with test cases that are chosen so that faults of other properties do not show in them."""

    property: Property
    cases: Sequence[Case]
    needs: tuple[str, ...] = _NOT_REPEATED
    """Names of properties. If one of them fails, this property is not tested."""
    costly: bool = False
    """Whether testing is so slow that no smaller input is searched for that shows the same fault."""
    told: str = ""
    """Sentence that is added to ``CheckReport.power`` if the property was tested."""


@dataclass(eq=False)
class Audit:
    """One audit of a scorer or model through its ``readers``. ``positions`` is the number of tested token positions."""

    readers: Sequence[Any]
    progress: Progress
    positions: int = 0
    rounding: dict[Any, float] = field(default_factory=dict)
    rows: list[CheckRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def ask(self, question: AuditQuestion) -> None:
        """Test the property of ``question`` and add a row for the result to ``rows``.

        Add a finding to ``findings`` too if the deviation is above the tolerance and no finding has this fault yet. If
        the test raises an exception, only a failed row is added.
        """
        one = question.property
        for reader in self.readers:
            reader.forget()  # answers are cached within a question, because a question asks about few texts often
        failed = [row.name for row in self.rows if row.name in question.needs and not row.passed]
        reason = one.applies(self.readers[0].model) or (failed and f"not tested, because '{failed[0]}' fails")
        if reason:
            self.rows.append(one.row(None, 0.0, str(reason)))
            return
        try:
            allowed = {reader: self._allowed(one, reader, question.cases) for reader in self.readers}
            worst = worst_of(one, self.readers, question.cases, allowed.__getitem__)
        except Exception as fault:  # an exception of a scorer is a finding about the property; other rows still count
            self.rows.append(one.row(torch.inf, 0.0, "the call failed", fault))
            return
        if worst is None:
            self.rows.append(one.row(None, 0.0, one.nothing))
            return
        self.told += [question.told] if question.told else []
        tolerance = allowed[worst.reader]
        self.rows.append(one.row(worst.found.value, tolerance, worst.where))
        if worst.found.value > tolerance and one.fault not in {finding.fault for finding in self.findings}:
            smallest = worst if question.costly else shrunk(one, worst, tolerance)
            self.findings.append(finding_of(one, worst, tolerance, smallest))

    def ask_all(self, *questions: AuditQuestion) -> None:
        """Test the property of each of ``questions``, in order. Put faults that cause other faults first."""
        for number, question in enumerate(questions):
            self.progress(question.property.name, number / len(questions))
            self.ask(question)

    def report(self, name: str) -> CheckReport:
        """Return the report of the results so far on the scorer or model called ``name``."""
        dtype = str(self.readers[0].precision).removeprefix("torch.")
        return CheckReport(name, "", dtype, tuple(self.rows), findings=tuple(self.findings), power=self._power())

    def _power(self) -> tuple[str, ...]:
        asked = [row for row in self.rows if row.worst is not None and row.error is None]
        alike = [row.tolerance for row in asked if row.name == "future"]
        sums = [row.tolerance for row in asked if row.name == SUMS.name]
        said = [
            f"The probability of a false alarm is {FALSE_ALARM_EXACT:g} for the exact tests (by rounding) and "
            f"{FALSE_ALARM_SAMPLED:g} for the tests of samples (by chance).",
            f"{self.positions} positions of random and given texts were tested: a fault at "
            f"{share_found(self.positions):.2%} of the positions is "
            f"missed with probability {MISSED:g}, a rarer fault more often.",
        ]
        said += [f"A fault is found if a sum is off by more than {one:.2g}." for one in sums]
        said += [f"A fault is found if log-probabilities differ by {one:.2g} of the largest." for one in alike]
        if any(row.name == "sampling" for row in asked):
            said.append("For samples, a deviation above 1 is more than chance explains.")
        return (*said, *self.told)

    def _allowed(self, one: Property, reader: Any, cases: Sequence[Case]) -> float:
        if one.limit is not None:
            return one.limit
        exact = one.tolerance(reader.precision) if one.exact is None else one.exact(reader, cases[0])
        if not one.reruns:
            return exact
        if reader not in self.rounding:
            self.rounding[reader] = _rounding(reader, cases[0])
        return min(one.most(reader.precision), exact + SHARE_OF_ROUNDING * self.rounding[reader])


def _rounding(reader: Reader, case: Case) -> float:
    """Change of the answers about a text if its batch also has copies of the text. It should be due to rounding.

    If a fault causes this change, ``Property.most`` still limits the tolerance, so that the audit detects the fault.
    """
    alone = case.sample.only(0)
    index = torch.zeros(3, dtype=torch.long, device=case.batch.ids.device)
    copies = alone.batch().select(index)
    found = reader.log_probs(copies)
    return deviation(found[copies.row == 0], reader.log_probs(alone.batch()))


@dataclass(frozen=True)
class Wanted:
    """The texts and the effort that the caller of ``nextword.check`` asked for.

    Args:
        lengths: Lengths of the random texts, in tokens.
        given: The caller's texts or token ids. None: only random texts.
        tokenizer: Tokenizer of the given texts. None: they are token ids.
        max_length: Maximum number of tokens of a given text. Longer texts are truncated.
        seed: Seed of the random texts.
        thorough: Whether to run also tests that need much memory or many calls.
    """

    lengths: Sequence[int]
    given: Any = None
    tokenizer: Any = None
    max_length: int = 64
    seed: int = 0
    thorough: bool = False


def audit_scorer(scorer: Any, vocabulary: int, wanted: Wanted, progress: Progress) -> CheckReport:
    """Audit ``scorer`` (a ``Scorer``) with token ids below ``vocabulary``, as described in ``nextword.check``.

    Raises:
        ValueError: If the scorer has none of the methods that return probabilities.
    """
    ways = ways_of(scorer)
    if not ways:
        raise ValueError("check: scorer must be a function of prefixes, or have text_distributions or text_log_probs")
    words = ProbeWords(torch.arange(vocabulary), wanted.seed, torch.device("cpu"), pad=0)
    texts = _Texts.made(scorer, words, wanted)
    copied = copy_of(scorer)
    repeats = REPEATS if copied is None else (*REPEATS, UNTOUCHED)
    readers = [ScorerReader(scorer, way, vocabulary, copied) for way in ways]
    audit = Audit(readers, progress, texts.positions)
    audit.ask_all(
        AuditQuestion(SUMS, [*texts.alone, *texts.together], ()),
        AuditQuestion(_KNOWN["finite"], texts.alone, ()),
        *(AuditQuestion(one, texts.alone[-1:], ()) for one in repeats),
        AuditQuestion(_KNOWN["future"], texts.alone),
        AuditQuestion(CUT, texts.alone),
        AuditQuestion(NEIGHBOURS, texts.together),
        AuditQuestion(ORDER, texts.together, (*_NOT_REPEATED, "other texts")),
        AuditQuestion(LENGTHS, texts.ragged, (*_NOT_REPEATED, "other texts")),
        *(texts.cached(runs) if callable(getattr(scorer, "in_steps", None)) else ()),
        _continued(texts, vocabulary, wanted.thorough),
        AuditQuestion(STEPS, texts.alone, (*_NOT_REPEATED, "future")),
        AuditQuestion(TOTALS, [*texts.alone, *texts.ragged]),
        AuditQuestion(UNSCORED, texts.alone, ()),
        AuditQuestion(SAMPLING, texts.alone[-1:], ("finite", SUMS.name, *_NOT_REPEATED)),
        AuditQuestion(BYTES, texts.alone[:1], ()),
    )
    return audit.report(getattr(scorer, "__name__", type(scorer).__name__))


def _continued(texts: _Texts, vocabulary: int, thorough: bool) -> AuditQuestion:
    costly = vocabulary > MANY
    cases = texts.alone[:FEW_PREFIXES] if costly else texts.alone
    told = f"All {vocabulary:,} continuations of {len(cases)} prefixes were tested, without sampling."
    return AuditQuestion(continuations(vocabulary, thorough), cases, costly=costly, told=told)


def audit_model(model: Any, wanted: Wanted, progress: Progress) -> CheckReport:
    """Audit a transformers model without a nextword head, as described in ``nextword.check``."""
    bare = BareModel(model)
    words = ProbeWords.of_model(bare, wanted.seed)
    texts = _Texts.made(bare, words, wanted)
    reader = ModelReader(bare)
    audit = Audit([reader], progress, texts.positions)
    audit.ask_all(
        AuditQuestion(SUMS, [*texts.alone, *texts.together], ()),
        AuditQuestion(_KNOWN["finite"], texts.alone, ()),
        AuditQuestion(UNSCORED, texts.alone, ()),
        AuditQuestion(ROUNDED, texts.alone[-1:], ()),
        *(AuditQuestion(one, texts.alone[-1:], ()) for one in REPEATS),
        AuditQuestion(_KNOWN["future"], texts.alone),
        AuditQuestion(CUT, texts.alone),
        AuditQuestion(NEIGHBOURS, texts.together),
        AuditQuestion(ORDER, texts.together, (*_NOT_REPEATED, "other texts")),
        AuditQuestion(_KNOWN["padding"], texts.ragged, (*_NOT_REPEATED, "other texts", "future")),
        AuditQuestion(_KNOWN["source padding"], texts.together),
        AuditQuestion(_KNOWN["padding contents"], texts.ragged, (*_NOT_REPEATED, "other texts", "future")),
        *texts.cached(None),
        *(AuditQuestion(one, texts.together, (*_NOT_REPEATED, "future")) for one in POSITIONS),
        AuditQuestion(LOSS, texts.ragged),
        AuditQuestion(replace(DOUBLE, applies=runs) if wanted.thorough else DOUBLE, texts.alone),
        AuditQuestion(GENERATING, texts.alone[:1]),
    )
    return audit.report(type(model).__name__)


@dataclass(frozen=True, eq=False)
class _Texts:
    """The texts of an audit, both random and given texts."""

    alone: Sequence[Case]  # one text per batch: no neighbours, no padding
    together: Sequence[Case]  # three texts of the same length per batch: neighbours, no padding
    ragged: Sequence[Case]  # three texts of different lengths per batch

    @classmethod
    def made(cls, subject: Any, words: ProbeWords, wanted: Wanted) -> _Texts:
        alone = [Case(subject, words, words.sample_of(length)) for length in wanted.lengths]
        if wanted.given is not None:
            sample = given_sample(words, wanted.given, wanted.tokenizer, wanted.max_length)
            alone += [Case(subject, words, sample.only(row)) for row in range(len(sample.rows))]
        together = [Case(subject, words, words.sample_of(length, length, length)) for length in wanted.lengths]
        return cls(alone, together, [Case(subject, words, words.random_sample(length)) for length in wanted.lengths])

    @property
    def positions(self) -> int:
        return sum(len(case.batch.row) for case in (*self.alone, *self.together, *self.ragged))

    def cached(self, applies: Callable[[Any], str] | None) -> list[AuditQuestion]:
        """Questions about the KV cache. ``applies`` returns why a question is not asked, or an empty text."""
        found = [one for one in _KNOWN.values() if one.of_the_cache]
        asked = found if applies is None else [replace(one, applies=applies) for one in found]
        needs = {"cache": (*_NOT_REPEATED, "future"), "cache-reordered": (*_NOT_REPEATED, "future", _IN_STEPS)}
        cases = {"cache": self.alone, "cache-reordered": self.together}
        return [AuditQuestion(one, cases[one.fault], needs[one.fault]) for one in asked]


def runs(_: Any) -> str:
    """Return an empty text. As ``Property.applies``, this function makes a property apply to every model."""
    return ""
