"""Example predictions, arranged for reading: prompt by prompt, the methods side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nextword.results.records import ExamplePrediction, TopWord
from nextword.results.report.comparison.methods import Method
from nextword.results.report.parts import formats


@dataclass(frozen=True)
class Part:
    """One source's share of a word's probability."""

    source: str
    place: int
    """Index of the source in the legend."""
    percent: float
    """Length of its bar, in percent of the longest possible."""
    text: str


@dataclass(frozen=True)
class Word:
    """One predicted word."""

    text: str
    expected: bool
    probability: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Answer:
    """What one method says."""

    method: Method
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Prompt:
    """One prompt with all answers."""

    text: str
    expected: tuple[str, ...]
    settings: tuple[tuple[str, tuple[Answer, ...]], ...]
    """The answers of every method that has the setting, setting by setting."""


@dataclass(frozen=True)
class Examples:
    """All prompts, and the legend of sources."""

    sources: tuple[str, ...]
    prompts: tuple[Prompt, ...]


def examples(methods: Sequence[Method]) -> Examples:
    """The examples of each method's first seed; empty where the task recorded none."""
    said = [(method, example) for method in methods for example in method.runs[0].evaluation.examples]
    sources = tuple(dict.fromkeys(s for _, example in said for word in example.top for s in word.sources))
    prompts: dict[tuple[str, tuple[str, ...]], list[tuple[Method, ExamplePrediction]]] = {}
    for method, example in said:
        prompts.setdefault((example.prompt, tuple(example.expected)), []).append((method, example))
    return Examples(sources, tuple(_prompt(*key, answers, sources) for key, answers in prompts.items()))


def _prompt(
    text: str,
    expected: tuple[str, ...],
    said: Sequence[tuple[Method, ExamplePrediction]],
    sources: tuple[str, ...],
) -> Prompt:
    # All bars of a prompt are on one scale, or else a confident method would look like a hesitant one.
    longest = max((word.probability for _, example in said for word in example.top), default=0.0) or 1.0
    wanted = {word.strip() for word in expected}
    answers: dict[str, list[Answer]] = {}
    for method, example in said:
        words = tuple(_word(word, wanted, longest, sources) for word in example.top)
        answers.setdefault(example.setting, []).append(Answer(method, words))
    settings = tuple((formats.setting(name), tuple(found)) for name, found in answers.items())
    return Prompt(text, expected, settings)


def _word(word: TopWord, wanted: set[str], longest: float, sources: tuple[str, ...]) -> Word:
    parts = tuple(
        Part(source, sources.index(source), 100 * share / longest, formats.probability(share))
        for source, share in word.sources.items()
        if share > 0
    )
    return Word(word.word, word.word.strip() in wanted, formats.probability(word.probability), parts)
