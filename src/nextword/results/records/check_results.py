"""Record of a check, written by ``nextword check --out``."""

from __future__ import annotations

from typing import Literal

from nextword.results.records.measured_values import Environment
from nextword.runtime.files import Record, VersionedRecord


class CheckedProperty(Record):
    """Result of checking one property of a model."""

    name: str
    """Short name of the property."""
    meaning: str
    """The property as a statement, which is true if the check passed."""
    verdict: Literal["passed", "FAILED", "remark", "not checked"]
    """Outcome. ``remark``: the deviation affects only one kind of result, and the distribution itself is correct."""
    worst: float | None
    """Largest measured deviation. None if the property was not checked, or the deviation is infinite or NaN."""
    tolerance: float
    """Largest deviation that passes."""
    where: str
    """Where the largest deviation occurred, the reason why the property was not checked, or the exception."""


class FoundFault(Record):
    """A fault that the check found, in words."""

    fault: str
    """Stable name of the fault."""
    sentence: str
    """Description of the fault and of its worst case."""
    amount: float | None
    """Deviation in the worst case; None if infinite."""
    tolerance: float
    """Largest deviation that passes."""
    texts: list[list[int]]
    """Token ids of the smallest texts that show the fault."""
    shown: str
    """Description of the fault on these texts."""
    only_for: str = ""
    """The only kind of result that the fault makes wrong, such as bits per byte; empty if the distribution is wrong."""


class CheckResults(VersionedRecord):
    """Record of a check: the content of check.json."""

    kind: Literal["check"] = "check"
    """Kind of record."""
    title: str
    """The checked model and its precision."""
    exit_code: Literal[0, 1, 2]
    """Exit code: 1 if a fault was found; otherwise 2 if a property failed (by an exception); otherwise 0."""
    properties: list[CheckedProperty]
    """Results of the properties, in the order of the report."""
    findings: list[FoundFault]
    """The faults. Faults that cause others come first."""
    power: list[str]
    """Sentences that say how small a fault the check can detect."""
    environment: Environment
    """Environment of the check."""
