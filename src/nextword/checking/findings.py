"""Results of a check, with one row per property."""

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
    """A model failed the check. The message names every failed property."""


@dataclass(frozen=True)
class CheckRow:
    """Result of one property.

    Args:
        name: Short name.
        meaning: Statement that is true if the property passed.
        worst: Largest deviation from the property. Infinite if a number is wrongly NaN or infinite, or if the call
            raised an exception. None if the property was not tested.
        tolerance: Largest deviation that passes.
        where: Mode, text and variant of the largest deviation, or the reason why the property was not tested.
        look_at: Advice on what to check in the code after a failure.
        error: The exception that was raised; None: no exception.
        only_for: Name of the only measure that a deviation makes wrong, such as bits per byte. Empty: a deviation means
            that the distribution itself is wrong.
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
        """Whether ``worst`` is at most ``tolerance``. Also true if ``worst`` is None or ``only_for`` is not empty."""
        return self.worst is None or self.worst <= self.tolerance or bool(self.only_for)

    @property
    def verdict(self) -> Literal["passed", "FAILED", "remark", "not checked"]:
        """``passed``, ``FAILED``, ``remark`` (only the measure ``only_for`` is wrong) or ``not checked``."""
        if self.worst is None:
            return "not checked"
        if self.worst <= self.tolerance:
            return "passed"
        return "remark" if self.only_for else "FAILED"

    def explain(self) -> str:
        """A sentence that says what failed, where it failed, and what to check."""
        if self.error is not None:
            return f"{self.name}: raised {type(self.error).__name__}: {self.error}"
        seen = f"deviation {self.worst:.3g}, at most {self.tolerance:.3g} allowed"
        return f"{self.name}: {seen} ({self.where}). {self.look_at}"


@dataclass(frozen=True)
class Finding:
    """One fault, in words.

    Args:
        fault: Name of the fault, one of ``nextword.checking.property.FAULTS``.
        sentence: Description of the fault and of its worst case.
        amount: Deviation in the worst case.
        tolerance: Largest deviation that passes.
        texts: Token ids of the smallest texts found that show the fault.
        shown: Description of the deviation on ``texts``.
        only_for: Name of the only measure that the fault makes wrong, such as bits per byte. Empty if the distribution
            itself is wrong, which fails the check.
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
    """The report of ``nextword.check``. ``print`` shows it as text, and ``rich`` shows it as a table.

    Args:
        model: Class of the backbone, or name of the scorer.
        head: Spec of the head. Empty for a scorer or a model without a nextword head.
        dtype: Precision of the model.
        rows: One row per property.
        conditioner: Spec of the conditioner. None if the model has no conditioner.
        findings: The faults, each with the smallest input found that shows it, in the order of ``rows``.
        power: Sentences that say how small a fault the check detects, and how often it misses one. Empty for a model
            with a nextword head.
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
        """Whether all ``rows`` have passed. Properties that were not tested count as passed."""
        return all(row.passed for row in self.rows)

    @property
    def failures(self) -> tuple[CheckRow, ...]:
        """The rows that failed."""
        return tuple(row for row in self.rows if not row.passed)

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """Exit code: 1 if a fault was found; otherwise 2 if a row failed (by an exception); otherwise 0."""
        faults = [one for one in self.findings if not one.only_for]
        if faults or any(row.error is None for row in self.failures):
            return 1
        return 2 if self.failures else 0

    @property
    def title(self) -> str:
        """Head, conditioner, backbone and precision, such as ``cache on GPT2LMHeadModel in float32``."""
        conditioned = "" if self.conditioner is None else f" with {self.conditioner}"
        head = f"{self.head}{conditioned} on " if self.head else ""
        return f"{head}{self.model} in {self.dtype}"

    def record(self) -> CheckResults:
        """Convert the report to ``CheckResults``, from which JSON and the HTML page are written."""
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
        """Raise an exception if a row failed.

        Raises:
            CheckFailedError: If at least one row failed. The message explains each failure.
        """
        if self.failures:
            causes = [row.error for row in self.failures if row.error is not None]
            raise CheckFailedError(f"{self.title}:\n{self._explanations()}") from (causes[0] if causes else None)

    def table(self) -> Table:
        """The rows as a table for ``rich``, with explanations of the failures below it."""
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
            # a call that raises an exception makes many rows fail with the same error, which is reported only once
            told = row.error is not None and str(row.error) in raised
            lines.append(f"{row.name}: raised the same" if told else row.explain())
            raised.add(str(row.error))
        return "\n".join(lines)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"
