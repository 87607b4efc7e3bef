"""Measuring a property in every mode on every sample, and keeping the worst of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nextword.checking.audit.faults import FAULTS
from nextword.checking.findings import Finding
from nextword.checking.property import Case, Deviation, Property
from nextword.checking.ways_of_reading import Reader


@dataclass(frozen=True, eq=False)
class Worst:
    """The deviation that is farthest beyond what is allowed, and what showed it.

    Args:
        found: The variant and its deviation.
        reader: Who was asked.
        case: On which texts.
    """

    found: Deviation
    reader: Reader
    case: Case

    @property
    def said(self) -> str:
        """Variant, place and numbers, as far as there are any."""
        return ": ".join(part for part in (self.found.variant, self.found.at) if part) or self.where

    @property
    def where(self) -> str:
        """Mode, text and variant, in a line."""
        return ", ".join(part for part in (self.reader.name, self.case.sample.name, self.found.variant) if part)


def finding_of(one: Property, worst: Worst, tolerance: float, smallest: Worst | None = None) -> Finding:
    """A failed property as a user would say it.

    Args:
        one: The property.
        worst: Where it fails most.
        tolerance: The largest deviation that passes.
        smallest: Where it fails on the smallest input; None where none was looked for.
    """
    shown = smallest or worst
    texts = tuple(tuple(row.tolist()) for row in (shown.found.sample or shown.case.sample).rows)
    sentence = f"{FAULTS[one.fault]}: {worst.said}"
    return Finding(one.fault, sentence, worst.found.value, tolerance, texts, shown.said)


def worst_of(
    one: Property, readers: Sequence[Reader], cases: Sequence[Case], allowed: Callable[[Reader], float] = lambda _: 1.0
) -> Worst | None:
    """The worst of a property, None where there was nothing to measure.

    Args:
        one: The property.
        readers: Who is asked.
        cases: About what.
        allowed: What of each reader is tolerated: deviations are compared in these units.
    """
    worst, most = None, -1.0
    for reader in readers:
        unit = allowed(reader)
        for case in cases:
            for found in one.measure(reader, case):
                if found.value / unit >= most:
                    worst, most = Worst(found, reader, case), found.value / unit
    return worst
