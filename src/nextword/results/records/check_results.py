"""What a check found: the record behind ``nextword check --out``."""

from __future__ import annotations

from typing import Literal

from nextword.results.records.measured_values import Environment
from nextword.runtime.files import Record, VersionedRecord


class CheckedProperty(Record):
    """One property."""

    name: str
    """Short name."""
    meaning: str
    """What holds if it passed."""
    verdict: Literal["passed", "FAILED", "remark", "not checked"]
    """What came of it."""
    worst: float | None
    """Largest deviation seen; None where it was not checked, or where no number says how far it was."""
    tolerance: float
    """Largest that passes."""
    where: str
    """Where the worst was seen, why it was not checked, or what was raised."""


class FoundFault(Record):
    """One fault, as a user would say it."""

    fault: str
    """Its stable name."""
    sentence: str
    """What is wrong, and where it was seen most."""
    amount: float | None
    """The deviation seen there; None where it is infinite."""
    tolerance: float
    """Largest that passes."""
    texts: list[list[int]]
    """Token ids of the smallest texts found that show it."""
    shown: str
    """What is seen on these."""
    only_for: str = ""
    """What alone it matters for; empty for a fault of the distribution."""


class CheckResults(VersionedRecord):
    """A whole check."""

    kind: Literal["check"] = "check"
    """What sort of record this is."""
    title: str
    """What was checked, and in which precision."""
    exit_code: Literal[0, 1, 2]
    """0 without a fault, 1 with one, 2 where something could not be asked."""
    properties: list[CheckedProperty]
    """In the order of the report."""
    findings: list[FoundFault]
    """The faults, those of causes first."""
    power: list[str]
    """What the check would have found."""
    environment: Environment
    """Where and when it ran."""
