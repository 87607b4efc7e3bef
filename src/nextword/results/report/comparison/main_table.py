"""What the methods' texts measure, laid out as in a paper: a row a method, people last, with a prompt below without."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from nextword.results.records import WITH_PROMPT, EvaluationResults, Results, SampleFile
from nextword.results.report.comparison.methods import Method, Style
from nextword.results.report.evaluation.evaluation_table import HUMAN, Cell, Group, Row, grouped
from nextword.results.report.parts import formats
from nextword.results.report.parts.columns import Column, Layout, layout_of

MOST = 13
"""Columns of a table at most, as many as the widest of the papers' has."""

GREEDY = "greedy"
"""Title of the decoding that is shown first; the others keep their order."""


@dataclass(frozen=True)
class TextRow:
    """What the texts of a method, or of people, measure."""

    label: str
    style: Style | None
    """How figures draw the method; None for people."""
    cells: tuple[Cell, ...]
    lacking: str = ""
    """How many seeds there are, where these are not all; such a row is never called the best."""


@dataclass(frozen=True)
class TextTable:
    """The table of one decoding."""

    decoding: str
    columns: tuple[Column, ...]
    rows: tuple[TextRow, ...]
    human: TextRow | None
    groups: tuple[Group, ...]
    """All measures, those without a column too, a row a measure."""
    of_people: bool
    """Whether people were measured, shown here or not."""

    def of_columns(self, first: int, last: int) -> TextTable:
        """The table of some of its columns."""
        rows = tuple(replace(row, cells=row.cells[first:last]) for row in self.rows)
        human = None if self.human is None else replace(self.human, cells=self.human.cells[first:last])
        return replace(self, columns=self.columns[first:last], rows=rows, human=human)

    @property
    def has_best(self) -> bool:
        """Whether any value is marked."""
        return any(cell.best for row in self.rows for cell in row.cells)

    @property
    def several(self) -> bool:
        """Whether a method has several seeds."""
        return any(cell.seeds for row in self.rows for cell in row.cells)


@dataclass(frozen=True)
class Sheet:
    """Tables of the same columns that are read together: a way of writing without and with a prompt, or one alone."""

    title: str
    columns: tuple[Column, ...]
    tables: tuple[TextTable, ...]

    @property
    def blocks(self) -> list[tuple[str, TextTable]]:
        """The tables with what is written over each; nothing over one alone."""
        if len(self.tables) == 1:
            return [("", self.tables[0])]
        return [("with prompt" if _prompted(table.decoding) else "without prompt", table) for table in self.tables]

    @property
    def headings(self) -> list[tuple[str, int]]:
        """Headings over neighbouring columns, with the number of columns each spans."""
        return [(name, len(list(members))) for name, members in groupby(column.group for column in self.columns)]

    @property
    def starts(self) -> list[bool]:
        """For every column, whether a heading starts with it."""
        return [i == 0 or self.columns[i - 1].group != column.group for i, column in enumerate(self.columns)]

    @property
    def parts(self) -> list[Sheet]:
        """The same columns in sheets of at most ``MOST``, those under one heading together."""
        cuts, end = [0], 0
        for name, span in self.headings:
            for width in [span] if name and span <= MOST else [1] * span:
                if end + width - cuts[-1] > MOST:
                    cuts.append(end)
                end += width
        return [self._columns(first, last) for first, last in pairwise([*cuts, end])]

    def _columns(self, first: int, last: int) -> Sheet:
        tables = tuple(table.of_columns(first, last) for table in self.tables)
        return replace(self, columns=self.columns[first:last], tables=tables)

    @property
    def has_best(self) -> bool:
        """Whether any value is marked."""
        return any(table.has_best for table in self.tables)

    @property
    def several(self) -> bool:
        """Whether a method has several seeds."""
        return any(table.several for table in self.tables)

    @property
    def human(self) -> bool:
        """Whether people have a row."""
        return any(table.human is not None for table in self.tables)


def in_order(results: Results) -> list[tuple[str, EvaluationResults]]:
    """The decodings with what was measured of their texts: greedy first, without a prompt before with one."""
    return [one for members in _ways(results).values() for one in members]


def sheets(results: Results, methods: Sequence[Method]) -> list[Sheet]:
    """The tables of all decodings, greedy first; empty where the methods wrote nothing."""
    return [_sheet(title, members, methods, len(results.seeds)) for title, members in _ways(results).items()]


def _ways(results: Results) -> dict[str, list[tuple[str, EvaluationResults]]]:
    """Decodings that differ by the prompt alone side by side, under the title that they share."""
    found: dict[str, list[tuple[str, EvaluationResults]]] = {}
    for title, texts in results.texts.items():
        found.setdefault(title.removesuffix(WITH_PROMPT), []).append((title, texts))
    first_greedy = sorted(found, key=lambda title: title != GREEDY)  # a stable sort keeps the others
    return {title: sorted(found[title], key=lambda member: _prompted(member[0])) for title in first_greedy}


def _prompted(decoding: str) -> bool:
    return decoding.endswith(WITH_PROMPT)


def _sheet(
    title: str, members: Sequence[tuple[str, EvaluationResults]], methods: Sequence[Method], seeds: int
) -> Sheet:
    measures = {key: measure for _, texts in members for key, measure in texts.measures.items()}
    layout = layout_of(measures)
    columns = tuple(layout.columns(measures))
    tables = tuple(_table(name, texts, (layout, columns), methods, seeds) for name, texts in members)
    return Sheet(title if len(tables) > 1 else tables[0].decoding, columns, tables)


def _table(
    decoding: str,
    texts: EvaluationResults,
    laid_out: tuple[Layout, tuple[Column, ...]],
    methods: Sequence[Method],
    seeds: int,
) -> TextTable:
    layout, columns = laid_out
    styles = {method.label: method.style for method in methods}
    whole = {system.name for system in texts.systems if len(system.models) >= seeds}
    groups = grouped(texts, judged=whole)
    rows = {row.key: row for group in groups for row in group.rows}
    found = [
        TextRow(
            label=system.name,
            style=styles.get(system.name),
            cells=_reasoned(_cells(rows, columns, place), columns, system.files),
            lacking="" if system.name in whole else f"{len(system.models)} of {seeds} seeds",
        )
        for place, system in enumerate(texts.systems)
    ]
    human = _human(rows, columns, texts.human) if layout.people and texts.human is not None else None
    return TextTable(decoding, columns, tuple(found), human, tuple(groups), texts.human is not None)


def _cells(rows: Mapping[str, Row], columns: Iterable[Column], place: int) -> list[Cell]:
    """Of one system; the other table of a sheet may have a measure that this one lacks."""
    return [rows[column.key].cells[place] if column.key in rows else Cell(formats.NOTHING) for column in columns]


def _human(rows: Mapping[str, Row], columns: Sequence[Column], file: SampleFile) -> TextRow:
    found = [rows[column.key].human if column.key in rows else None for column in columns]
    cells = [cell if cell is not None else Cell(formats.NOTHING) for cell in found]
    return TextRow(HUMAN, None, _reasoned(cells, columns, [file]))


def _reasoned(cells: Sequence[Cell], columns: Sequence[Column], files: Collection[SampleFile]) -> tuple[Cell, ...]:
    """The cells, those without a value with the reason that the files give."""
    return tuple(
        cell if cell.text != formats.NOTHING else replace(cell, reason=_reason(column, files))
        for cell, column in zip(cells, columns, strict=True)
    )


def _reason(column: Column, files: Collection[SampleFile]) -> str:
    lacking = [file for file in files if column.key not in file.values]
    why = "; ".join(dict.fromkeys(reason for file in lacking for reason in _reasons(column, file)))
    if not why or len(lacking) == len(files):
        return why
    return f"{len(lacking)} of {len(files)} seeds: {why}"


def _reasons(column: Column, file: SampleFile) -> Iterator[str]:
    """Why the metric that gives the measure of the column has no value for the file."""
    for metric, why in file.undefined.items():
        if metric == column.metric or (not column.metric and column.key.startswith(metric)):
            yield why
