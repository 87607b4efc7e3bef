"""Record of a check, written by ``nextword check --out``."""

from __future__ import annotations

from typing import Literal

from nextword.results.records.measured_values import Environment
from nextword.runtime.files import Record, VersionedRecord


class CheckedProperty(Record):
    """Result of one property."""

    name: str
    """Short name of the property."""
    meaning: str
    """Statement that is true if the check passed."""
    verdict: Literal["passed", "FAILED", "remark", "not checked"]
    """Outcome."""
    worst: float | None
    """Largest deviation. None if the property was not checked or has no number."""
    tolerance: float
    """Largest deviation that passes."""
    where: str
    """Where the largest deviation occurred, the reason why the property was not checked, or the exception."""


class FoundFault(Record):
    """One fault, in words."""

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
    """The only measure that the fault affects; empty for a fault of the distribution."""


class CheckResults(VersionedRecord):
    """Record of a check."""

    kind: Literal["check"] = "check"
    """Kind of record."""
    title: str
    """The checked model and its precision."""
    exit_code: Literal[0, 1, 2]
    """Exit code: 0 without a fault, 1 with a fault, 2 if something could not be tested."""
    properties: list[CheckedProperty]
    """Results of the properties, in the order of the report."""
    findings: list[FoundFault]
    """The faults. Faults that cause others come first."""
    power: list[str]
    """Sentences about the smallest faults that the check detects."""
    environment: Environment
    """Environment of the check."""
