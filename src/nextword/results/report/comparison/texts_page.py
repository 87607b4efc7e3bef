"""What the page of a comparison says of the texts that the methods wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nextword.results.records import WITH_PROMPT, EvaluationResults, Results, RunRecord, Span, WrittenExample
from nextword.results.report.comparison.main_table import Sheet, TextTable, sheets
from nextword.results.report.comparison.methods import Method, Style
from nextword.results.report.evaluation.evaluation_table import Test, note_on_tests, notes, paired_rows, undefined
from nextword.results.report.parts import formats
from nextword.results.report.parts.glossary import Entry, of_measures, of_texts


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
class Stretch:
    """A part of a text that is marked in one way."""

    text: str
    mark: str = ""
    """A key of ``MARKS`` where its words are very rare; empty for others."""
    copied: bool = False


MARKS = {
    "rare": "very rare in the training text (beyond its first 90 % of tokens, most frequent first)",
    "word": "very rare and in lower case, so no name: what F2-Softmax's table 4 has in red",
    "again": "very rare and there before in the same text: green in that table",
}
"""The ways in which very rare words are marked, and what each says; the last that holds is shown."""


@dataclass(frozen=True)
class Author:
    """A text to read, with who wrote it."""

    label: str
    style: Style | None
    """How figures draw the method; None for people."""
    stretches: tuple[Stretch, ...]
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
    beside: bool
    """Whether it is a document, which stands beside what was written from it."""
    writings: tuple[Writing, ...]

    @property
    def stretches(self) -> list[Stretch]:
        """All of what was written."""
        return [part for writing in self.writings for author in writing.authors for part in author.stretches]


def legend(found: Sequence[Reading]) -> tuple[list[tuple[str, str]], bool]:
    """What the marks of these texts say, by mark, and whether anything is marked as copied."""
    shown = [stretch for reading in found for stretch in reading.stretches]
    used = {stretch.mark for stretch in shown}
    return [(mark, said) for mark, said in MARKS.items() if mark in used], any(stretch.copied for stretch in shown)


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
    by_prompt: dict[tuple[str | None, str], list[WrittenExample]] = {}
    for example in results.written:
        by_prompt.setdefault((example.source, example.prompt), []).append(example)
    chosen = any(title.endswith(WITH_PROMPT) for title in results.texts)
    kind = "Summary" if chosen else "Prompt"
    return [
        Reading(
            prompt=prompt if source is None else source,
            kind=kind if source is None or chosen else "Source",
            beside=source is not None and not chosen,
            writings=tuple(_writing(example, styles, chosen) for example in examples),
        )
        for (source, prompt), examples in by_prompt.items()
    ]


def _writing(example: WrittenExample, styles: Mapping[str, Style], chosen: bool) -> Writing:
    with_it = example.decoding.endswith(WITH_PROMPT)
    way = f"{example.decoding}{'' if with_it or not chosen else ', without prompt'}"
    authors = (
        Author(
            label=text.author,
            style=styles.get(text.author),
            stretches=tuple(part for span in text.spans for part in _stretches(span)),
            very_rare=formats.value(text.very_rare, "fraction", 1),
        )
        for text in example.texts
    )
    return Writing(way, example.seed, tuple(authors))


def _stretches(span: Span) -> list[Stretch]:
    """A span, its space in front apart: tokens begin with the space before a word, and a mark is of the word."""
    word = span.text.lstrip()
    space = span.text[: len(span.text) - len(word)]
    mark = "again" if span.repeated else "word" if span.lower_case else "rare" if span.very_rare else ""
    return [one for one in (Stretch(space, copied=span.copied), Stretch(word, mark, span.copied)) if one.text]


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
