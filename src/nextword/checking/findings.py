"""What a check found: one row for each property."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


class CheckFailedError(ValueError):
    """A model whose distribution is not what it should be; the message names every property that fails."""


@dataclass(frozen=True)
class Row:
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
    """

    name: str
    meaning: str
    worst: float | None
    tolerance: float
    where: str
    look_at: str
    error: Exception | None = None

    @property
    def passed(self) -> bool:
        """Whether the deviation is within the tolerance; true where the property does not apply."""
        return self.worst is None or self.worst <= self.tolerance

    @property
    def verdict(self) -> str:
        """``passed``, ``FAILED`` or ``not checked``."""
        if self.worst is None:
            return "not checked"
        return "passed" if self.passed else "FAILED"

    def explain(self) -> str:
        """What failed, where it was seen and what to look at."""
        if self.error is not None:
            return f"{self.name}: raised {type(self.error).__name__}: {self.error}"
        seen = f"deviation {self.worst:.3g}, at most {self.tolerance:.3g} allowed"
        return f"{self.name}: {seen} ({self.where}). {self.look_at}"


@dataclass(frozen=True)
class CheckReport:
    """What ``nextword.check`` found; ``print`` shows it, ``rich`` shows it as a table.

    Args:
        model: Class of the backbone.
        head: Spec of the head.
        dtype: Precision of the model.
        rows: One for each property.
        conditioner: Spec of the conditioner; None where the model has none.
    """

    model: str
    head: str
    dtype: str
    rows: tuple[Row, ...]
    conditioner: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every property that applies holds."""
        return all(row.passed for row in self.rows)

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that failed."""
        return tuple(row for row in self.rows if not row.passed)

    @property
    def title(self) -> str:
        """Head, conditioner, backbone and precision."""
        conditioned = "" if self.conditioner is None else f" with {self.conditioner}"
        return f"{self.head}{conditioned} on {self.model} in {self.dtype}"

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
            colour = "dim" if row.worst is None else "green" if row.passed else "bold red"
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
            # one broken call makes many rows fail alike; it is told once
            told = row.error is not None and str(row.error) in raised
            lines.append(f"{row.name}: raised the same" if told else row.explain())
            raised.add(str(row.error))
        return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"
