"""What the measures of a page mean: each explained once, however many columns or lengths of n-grams it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nextword.results.records import Measure
from nextword.results.report.comparison.method_tables import Column as Quantity
from nextword.results.report.parts import formats
from nextword.results.report.parts.columns import Column


@dataclass(frozen=True)
class Entry:
    """A measure."""

    term: str
    meaning: str
    units: tuple[str, ...] = ()
    """In full; none where the headings of the columns say them."""


@dataclass(frozen=True)
class _Line:
    """What is said of one measure before those that say the same are put together."""

    family: str
    length: str
    """Of the n-grams; empty where the key has none."""
    alone: str
    """Its term."""
    together: str
    """The term of its whole family."""
    meaning: str
    unit: str


def of_metrics(columns: Iterable[Quantity]) -> list[Entry]:
    """Of the metrics of runs, in the order of their columns."""
    by_meaning: dict[str, list[Quantity]] = {}
    for column in columns:
        if column.meaning:
            by_meaning.setdefault(column.meaning, []).append(column)
    return [_of_metric(meaning, members) for meaning, members in by_meaning.items()]


def _of_metric(meaning: str, columns: Sequence[Quantity]) -> Entry:
    term, _, sentence = meaning.partition(": ")
    units: dict[str, list[str]] = {}
    for column in columns:
        if column.unit != column.short_unit and not column.unit.startswith("%"):
            units.setdefault(column.unit, []).append(column.title)
    if len(units) == 1:
        return Entry(term, sentence, tuple(units))
    return Entry(term, sentence, tuple(f"{unit} ({', '.join(titles)})" for unit, titles in units.items()))


def of_texts(columns: Iterable[Column]) -> list[Entry]:
    """Of the measures of texts that have a column, in the order of these."""
    lines = []
    for column in columns:
        said = _sentence(column.measure)
        plain = column.title.lower() == column.measure.title.lower()
        name = column.title if plain or column.note else f"{column.title} ({column.measure.title})"
        alone = column.measure.title if column.group else name
        meaning = f"{said} Here: {column.note}." if column.note else said
        lines.append(_line(column.key, alone, column.group, meaning, column.measure))
    return _entries(lines)


def of_measures(measures: Mapping[str, Measure]) -> list[Entry]:
    """Of any measures of texts, by key, in their order."""
    return _entries([_line(key, one.title, "", _sentence(one), one) for key, one in measures.items()])


def _sentence(measure: Measure) -> str:
    """What a measure means, without its title in front."""
    title = f"{measure.title}: "
    return measure.meaning[len(title) :] if measure.meaning.lower().startswith(title.lower()) else measure.meaning


def _line(key: str, alone: str, together: str, meaning: str, measure: Measure) -> _Line:
    family, _, length = key.rpartition("-")
    if not length.isdigit():
        family, length = key, ""
    of_family = together or re.sub(rf"[ -]?\b{length}$", "", alone)
    return _Line(family, length, alone, of_family, meaning, formats.unit_name(measure.unit))


def _entries(lines: Iterable[_Line]) -> list[Entry]:
    families: dict[str, list[_Line]] = {}
    for line in dict.fromkeys(lines):  # the tables of two ways of writing have the same columns
        families.setdefault(line.family, []).append(line)
    found: list[Entry] = []
    for members in families.values():
        meanings = _shared([(line.meaning, line.length) for line in members])
        if len(members) > 1 and len(meanings) == 1:
            units = _shared([(line.unit, line.length) for line in members])
            found.append(Entry(members[0].together, meanings[0], units))
        else:
            found += [Entry(line.alone, line.meaning, (line.unit,)) for line in members]
    return found


def _shared(texts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The texts, one where they differ in nothing but the length of the n-grams.

    >>> _shared([("1-grams of a text", "1"), ("2-grams of a text", "2")]), _shared([("words", "1"), ("pairs", "2")])
    (('n-grams of a text',), ('words', 'pairs'))
    """
    plain = dict.fromkeys(text for text, _ in texts)
    general = dict.fromkeys(re.sub(rf"\b{length}\b", "n", text) if length else text for text, length in texts)
    return tuple(plain if len(plain) == 1 or len(general) > 1 else general)
