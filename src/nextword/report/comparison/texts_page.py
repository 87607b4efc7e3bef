"""What the page of a comparison says of the texts that the methods wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nextword.records import WITH_PROMPT, EvaluationResults, Results, RunRecord, Span, WrittenExample
from nextword.report.comparison.main_table import Sheet, TextTable, sheets
from nextword.report.comparison.methods import Method, Style
from nextword.report.evaluation.evaluation_table import Test, note_on_tests, notes, paired_rows, undefined
from nextword.report.parts import formats
from nextword.report.parts.glossary import Entry, of_measures, of_texts


@dataclass(frozen=True)
class Decoding:
    """Everything about the texts of one decoding."""

    table: TextTable
    evaluation: EvaluationResults
    tests: tuple[Test, ...]
    """The paired tests of the measures in the table."""
    tests_note: str
    undefined: tuple[tuple[str, str, dict[str, str]], ...]
    notes: tuple[str, ...]
    vote_titles: str
    """Titles of the measures that voted for the ranking."""
    glossary: tuple[Entry, ...]
    """What the measures without a column mean."""


@dataclass(frozen=True)
class Way:
    """Decodings that are read together, under one heading."""

    anchor: str
    sheet: Sheet
    decodings: tuple[Decoding, ...]


@dataclass(frozen=True)
class Author:
    """A text to read, with who wrote it."""

    label: str
    style: Style | None
    """How figures draw the method; None for people."""
    spans: tuple[tuple[str, bool], ...]
    """What is written, and whether it is very rare."""
    very_rare: str


@dataclass(frozen=True)
class Writing:
    """What people and the methods wrote in one way."""

    way: str
    """The decoding and, where there is a choice, whether the prompt stood before the text."""
    seed: int
    authors: tuple[Author, ...]


@dataclass(frozen=True)
class Reading:
    """A prompt with what people and the methods wrote after it."""

    prompt: str
    kind: str
    """What the prompt is to the methods."""
    writings: tuple[Writing, ...]


def ways(results: Results, methods: Sequence[Method]) -> list[Way]:
    """The ways of writing, greedy first; empty where the methods wrote nothing."""
    return [
        Way(
            anchor=f"texts-{number}",
            sheet=sheet,
            decodings=tuple(_decoding(table, results.texts[table.decoding]) for table in sheet.tables),
        )
        for number, sheet in enumerate(sheets(results, methods), 1)
    ]


def _decoding(table: TextTable, texts: EvaluationResults) -> Decoding:
    columns = {column.key for column in table.columns}
    votes = [texts.measures[key].title for key in texts.wins.measures] if texts.wins is not None else []
    return Decoding(
        table=table,
        evaluation=texts,
        tests=tuple(paired_rows(texts, columns)),
        tests_note=note_on_tests(texts),
        undefined=tuple(undefined(texts)),
        notes=tuple(notes(texts)),
        vote_titles=", ".join(votes),
        glossary=tuple(of_measures({key: one for key, one in texts.measures.items() if key not in columns})),
    )


def glossary(found: Sequence[Way]) -> list[Entry]:
    """What the columns of the tables mean."""
    return of_texts(column for one in found for column in one.sheet.columns)


def readings(results: Results, methods: Sequence[Method]) -> list[Reading]:
    """The texts to read, prompt by prompt, in the order of the record."""
    styles = {method.label: method.style for method in methods}
    by_prompt: dict[str, list[WrittenExample]] = {}
    for example in results.written:
        by_prompt.setdefault(example.prompt, []).append(example)
    chosen = any(title.endswith(WITH_PROMPT) for title in results.texts)
    kind = "Summary" if chosen else "Prompt"
    return [
        Reading(prompt, kind, tuple(_writing(example, styles, chosen) for example in examples))
        for prompt, examples in by_prompt.items()
    ]


def _writing(example: WrittenExample, styles: Mapping[str, Style], chosen: bool) -> Writing:
    with_it = example.decoding.endswith(WITH_PROMPT)
    way = f"{example.decoding}{'' if with_it or not chosen else ', without prompt'}"
    authors = (
        Author(
            label=text.author,
            style=styles.get(text.author),
            spans=tuple(part for span in text.spans for part in _parts(span)),
            very_rare=formats.value(text.very_rare, "fraction", 1),
        )
        for text in example.texts
    )
    return Writing(way, example.seed, tuple(authors))


def _parts(span: Span) -> list[tuple[str, bool]]:
    """A span, its space in front apart: tokens begin with the space before a word, and a mark is of the word."""
    word = span.text.lstrip()
    space = span.text[: len(span.text) - len(word)]
    return [(text, rare) for text, rare in ((space, False), (word, span.very_rare)) if text]


def heads(methods: Sequence[Method]) -> list[tuple[str, str]]:
    """What the heads say about themselves: the method, with the seed where seeds differ, and the facts."""
    found = []
    for method in methods:
        told = {run.seed: _facts(run) for run in method.runs if run.facts}
        differ = len(set(told.values())) > 1
        for seed, facts in told.items() if differ else list(told.items())[:1]:
            found.append((f"{method.label}, seed {seed}" if differ else method.label, facts))
    return found


def _facts(run: RunRecord) -> str:
    return "; ".join(f"{formats.setting(name)}: {formats.plain(thing)}" for name, thing in run.facts.items())
