"""What the methods' texts measure, laid out as in F2-Softmax (tables 1, 2 and 10): a row a method, people last."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from nextword.records import EvaluationResults, Measure, Results, SampleFile
from nextword.report import formats
from nextword.report.evaluations import ARROWS, HUMAN, Cell, Group, Row, grouped
from nextword.report.methods import Method, Style

GREEDY = "greedy"
"""Title of the decoding that is shown first; the others keep their order."""

BIGRAMS = 2
"""Of the measures of n-grams, the one that stands for all where there is little room, as in figure 3 and table 3."""


@dataclass(frozen=True)
class _Rule:
    pattern: str
    group: str
    title: str
    short: str
    metric: str
    """Who gives the measure, and the reason where there is no value."""


_RULES = (
    _Rule(r"perplexity", "", "PPL", "PPL", "likelihood"),
    _Rule(r"kl-human-generated", "", "KLD", "KLD", "unigram-kl"),
    _Rule(r"ms-jaccard-([123])", "MS-Jaccard", "n = {n}", "MSJ-{n}", "ms-jaccard"),
    _Rule(r"self-bleu-([123])", "Self-BLEU", "n = {n}", "SB-{n}", "self-bleu"),
    _Rule(r"distinct-([123])", "Distinct", "n = {n}", "Dist-{n}", "distinct"),
    _Rule(r"rep", "", "Rep", "Rep", "rep"),
    _Rule(r"uniq-seq", "", "Uniq", "Uniq", "uniq-seq"),
)


@dataclass(frozen=True)
class Column:
    """A measure as a column."""

    key: str
    group: str
    """Heading over columns that differ in the length of the n-grams only; empty for the others."""
    title: str
    short: str
    """Title that needs no heading over it."""
    metric: str
    measure: Measure
    main: bool
    """Whether it is among the few for which a terminal or a figure has room."""

    @property
    def arrow(self) -> str:
        """Which way is good."""
        return ARROWS[self.measure.goal] if self.measure.goal else ""

    @property
    def goal(self) -> str:
        """The same in words."""
        words = {"higher": "higher is better", "lower": "lower is better", HUMAN: "the closer to people the better"}
        return words[self.measure.goal] if self.measure.goal else ""

    @property
    def short_unit(self) -> str:
        """The unit without what stands in brackets; of a share, its sign."""
        name = formats.unit_name(self.measure.unit).partition(" (")[0]
        return "%" if name.startswith("%") else name


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

    @property
    def headings(self) -> list[tuple[str, int]]:
        """Headings over neighbouring columns, with the number of columns each spans."""
        return [(name, len(list(members))) for name, members in groupby(column.group for column in self.columns)]

    @property
    def starts(self) -> list[bool]:
        """For every column, whether a heading starts with it."""
        return [i == 0 or self.columns[i - 1].group != column.group for i, column in enumerate(self.columns)]

    @property
    def has_best(self) -> bool:
        """Whether any value is marked."""
        return any(cell.best for row in self.rows for cell in row.cells)

    @property
    def several(self) -> bool:
        """Whether a method has several seeds."""
        return any(cell.seeds for row in self.rows for cell in row.cells)


def in_order(results: Results) -> list[tuple[str, EvaluationResults]]:
    """The decodings with what was measured of their texts, greedy first."""
    return sorted(results.texts.items(), key=lambda item: item[0] != GREEDY)  # a stable sort keeps the others


def text_columns(measures: Mapping[str, Measure]) -> list[Column]:
    """The measures that have a column, in the paper's order."""
    found: list[Column] = []
    for rule in _RULES:
        matches = [match for key in measures if (match := re.fullmatch(rule.pattern, key))]
        lengths = sorted((int((match.groups() or ("0",))[0]), match.string) for match in matches)
        known = [n for n, _ in lengths]
        main = BIGRAMS if BIGRAMS in known else max(known, default=0)
        found += [
            Column(
                key, rule.group, rule.title.format(n=n), rule.short.format(n=n), rule.metric, measures[key], n == main
            )
            for n, key in lengths
        ]
    return found


def text_tables(results: Results, methods: Sequence[Method]) -> list[TextTable]:
    """The table of every decoding, greedy first; empty where the methods wrote nothing."""
    return [_table(title, texts, methods, len(results.seeds)) for title, texts in in_order(results)]


def _table(decoding: str, texts: EvaluationResults, methods: Sequence[Method], seeds: int) -> TextTable:
    styles = {method.label: method.style for method in methods}
    whole = {system.name for system in texts.systems if len(system.files) >= seeds}
    groups = grouped(texts, judged=whole)
    rows = {row.key: row for group in groups for row in group.rows}
    columns = text_columns(texts.measures)
    shown = [rows[column.key] for column in columns]
    found = [
        TextRow(
            label=system.name,
            style=styles.get(system.name),
            cells=_reasoned([row.cells[place] for row in shown], columns, system.files),
            lacking="" if system.name in whole else f"{len(system.files)} of {seeds} seeds",
        )
        for place, system in enumerate(texts.systems)
    ]
    human = None if texts.human is None else _human(shown, columns, texts.human)
    return TextTable(decoding, tuple(columns), tuple(found), human, tuple(groups))


def _human(shown: Sequence[Row], columns: Sequence[Column], file: SampleFile) -> TextRow:
    cells = [row.human for row in shown if row.human is not None]
    return TextRow(HUMAN, None, _reasoned(cells, columns, [file]))


def _reasoned(cells: Sequence[Cell], columns: Sequence[Column], files: Collection[SampleFile]) -> tuple[Cell, ...]:
    """The cells, those without a value with the reason that the files give."""
    return tuple(
        cell if cell.text != formats.NOTHING else replace(cell, reason=_reason(column, files))
        for cell, column in zip(cells, columns, strict=True)
    )


def _reason(column: Column, files: Collection[SampleFile]) -> str:
    lacking = [file for file in files if column.key not in file.values]
    why = "; ".join(dict.fromkeys(file.undefined[column.metric] for file in lacking if column.metric in file.undefined))
    if not why or len(lacking) == len(files):
        return why
    return f"{len(lacking)} of {len(files)} seeds: {why}"
