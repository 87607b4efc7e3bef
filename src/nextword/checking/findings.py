"""What a check found: one row for each property."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

    from nextword.results.records.check_results import CheckResults


COLOURS = {"passed": "green", "FAILED": "bold red", "remark": "yellow", "not checked": "dim"}
"""Colours of verdicts on a terminal."""


class CheckFailedError(ValueError):
    """A model whose distribution is not what it should be; the message names every property that fails."""


@dataclass(frozen=True)
class CheckRow:
    """One property of the distribution.

    Args:
        name: Short name.
        meaning: What holds if it passed.
        worst: Largest deviation seen; infinite where a number is missing or the call raised, None where the property
            does not apply to this model.
        tolerance: Largest deviation that passes.
        where: Mode, text and variant in which the worst deviation was seen; why it does not apply where it does not.
        look_at: What to look at where it failed.
        error: What was raised, if anything was.
        only_for: What alone a larger deviation matters for; empty where it is a fault of the distribution.
    """

    name: str
    meaning: str
    worst: float | None
    tolerance: float
    where: str
    look_at: str
    error: Exception | None = None
    only_for: str = ""

    @property
    def passed(self) -> bool:
        """Whether the deviation is within the tolerance; true where the property does not apply, or is a warning."""
        return self.worst is None or self.worst <= self.tolerance or bool(self.only_for)

    @property
    def verdict(self) -> Literal["passed", "FAILED", "remark", "not checked"]:
        """``passed``, ``FAILED``, ``remark`` where the distribution is not at fault, or ``not checked``."""
        if self.worst is None:
            return "not checked"
        if self.worst <= self.tolerance:
            return "passed"
        return "remark" if self.only_for else "FAILED"

    def explain(self) -> str:
        """What failed, where it was seen and what to look at."""
        if self.error is not None:
            return f"{self.name}: raised {type(self.error).__name__}: {self.error}"
        seen = f"deviation {self.worst:.3g}, at most {self.tolerance:.3g} allowed"
        return f"{self.name}: {seen} ({self.where}). {self.look_at}"


@dataclass(frozen=True)
class Finding:
    """One fault, as a user would say it.

    Args:
        fault: Its name, one of ``nextword.checking.property.FAULTS``.
        sentence: What is wrong, and where it was seen most.
        amount: The deviation seen there.
        tolerance: The largest that passes.
        texts: Token ids of the smallest texts found that show it.
        shown: What is seen on these.
        only_for: What alone it matters for; empty for a fault of the distribution, which fails the check.
    """

    fault: str
    sentence: str
    amount: float
    tolerance: float
    texts: tuple[tuple[int, ...], ...]
    shown: str
    only_for: str = ""

    def __str__(self) -> str:
        matters = f" (matters for {self.only_for} only)" if self.only_for else ""
        return f"{self.fault}: {self.sentence}{matters}"


@dataclass(frozen=True)
class CheckReport:
    """What ``nextword.check`` found; ``print`` shows it, ``rich`` shows it as a table.

    Args:
        model: Class of the backbone.
        head: Spec of the head; empty for what has none of ours.
        dtype: Precision of the model.
        rows: One for each property.
        conditioner: Spec of the conditioner; None where the model has none.
        findings: The faults by name, each with the smallest input that shows it; those of causes first.
        power: What the check would have found, in sentences.
    """

    model: str
    head: str
    dtype: str
    rows: tuple[CheckRow, ...]
    conditioner: str | None = None
    findings: tuple[Finding, ...] = ()
    power: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every property that applies holds."""
        return all(row.passed for row in self.rows)

    @property
    def failures(self) -> tuple[CheckRow, ...]:
        """The rows that failed."""
        return tuple(row for row in self.rows if not row.passed)

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """For programs: 0 without a fault, 1 with one, 2 where some properties could not be checked."""
        faults = [one for one in self.findings if not one.only_for]
        if faults or any(row.error is None for row in self.failures):
            return 1
        return 2 if self.failures else 0

    @property
    def title(self) -> str:
        """Head, conditioner, backbone and precision."""
        conditioned = "" if self.conditioner is None else f" with {self.conditioner}"
        head = f"{self.head}{conditioned} on " if self.head else ""
        return f"{head}{self.model} in {self.dtype}"

    def record(self) -> CheckResults:
        """The report as a record, to be saved as JSON or shown as a page."""
        from nextword.results.records.check_results import CheckedProperty, CheckResults, FoundFault
        from nextword.results.records.measured_values import Environment

        properties = [
            CheckedProperty(
                name=row.name,
                meaning=row.meaning,
                verdict=row.verdict,
                worst=_finite(row.worst),
                tolerance=row.tolerance,
                where=row.where if row.error is None else row.explain(),
            )
            for row in self.rows
        ]
        findings = [
            FoundFault(**vars(one) | {"amount": _finite(one.amount), "texts": [list(text) for text in one.texts]})
            for one in self.findings
        ]
        return CheckResults(
            title=self.title,
            exit_code=self.exit_code,
            properties=properties,
            findings=findings,
            power=list(self.power),
            environment=Environment.collect(),
        )

    def raise_if_failed(self) -> None:
        """Does nothing where all rows passed.

        Raises:
            CheckFailedError: At least one row failed; the message explains every one.
        """
        if self.failures:
            causes = [row.error for row in self.failures if row.error is not None]
            raise CheckFailedError(f"{self.title}:\n{self._explanations()}") from (causes[0] if causes else None)

    def table(self) -> Table:
        """The rows as a table for ``rich``; failures are explained below it."""
        from rich.markup import escape
        from rich.table import Table

        caption = escape(self._explanations()) if self.failures else None
        table = Table(title=escape(self.title), caption=caption, caption_justify="left", caption_style="red")
        for heading in ("property", "result", "what it means"):
            table.add_column(heading)
        for heading in ("worst", "tolerance"):
            table.add_column(heading, justify="right")
        for row in self.rows:
            colour = COLOURS[row.verdict]
            meaning = f"not checked: {row.where}" if row.worst is None else row.meaning
            result = f"[{colour}]{row.verdict}[/]"
            table.add_row(escape(row.name), result, escape(meaning), _number(row.worst), _number(row.tolerance))
        return table

    def __rich__(self) -> Table:
        return self.table()

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = [
            f"{row.name:<{width}}  {row.verdict:<11}  {_number(row.worst):>8}  (tolerance {_number(row.tolerance)})"
            for row in self.rows
        ]
        return "\n".join([self.title, *lines, *([self._explanations()] if self.failures else [])])

    def _explanations(self) -> str:
        lines, raised = [], set()
        for row in self.failures:
            # one broken call makes many rows fail alike; it is reported once
            told = row.error is not None and str(row.error) in raised
            lines.append(f"{row.name}: raised the same" if told else row.explain())
            raised.add(str(row.error))
        return "\n".join(lines)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"
