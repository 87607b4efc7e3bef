"""Summaries whose right answers are known, which a judge answers before the others (HistAlign, appendix B.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nextword.config import Settings, validated
from nextword.corpora import json_lines
from nextword.judges.parts.sentences import sentences_of
from nextword.records.survey_files import Passage, Question
from nextword.survey.kinds.kind import DraftGroup, DraftItem, DraftUnit


class KnownAnswers(Settings):
    """A line of the file."""

    source: str
    """The document."""
    text: str
    """A sentence about it, or a short summary, which is judged as a whole."""
    answers: dict[str, str]
    """The right answer to each question: {"faithfulness": "no"}."""


def qualification(path: Path, questions: Sequence[Question]) -> list[tuple[DraftItem, dict[str, str]]]:
    """Items with their right answers, one for each line of a file of JSON lines.

    Args:
        path: Lines {"source": ..., "text": ..., "answers": {QUESTION: ANSWER}}; questions that a line leaves out may
            be answered in any way.
        questions: Of the survey.

    Raises:
        ValueError: The file cannot be read, has no line, or one without these keys or with another question or answer.
    """
    choices = {question.name: [choice.value for choice in question.choices] for question in questions}
    found = []
    for line in json_lines(path, "qualification"):
        known = validated(KnownAnswers, line.content, line.place)
        _expect_answers(known.answers, choices, line.place)
        unit = DraftUnit([Passage(title="", lines=[known.text])])
        document = Passage(title="Document", lines=sentences_of(known.source))
        found.append((DraftItem("", [document], [DraftGroup({}, [unit])]), known.answers))
    if not found:
        raise ValueError(f"qualification: {path} must have a line for each item (it is empty); add one")
    return found


def _expect_answers(answers: Mapping[str, str], choices: Mapping[str, Sequence[str]], place: str) -> None:
    if not answers:
        raise ValueError(f"{place}: answers: must have a right answer (none given); give one of {', '.join(choices)}")
    for question, answer in answers.items():
        if question not in choices:
            raise ValueError(f"{place}: answers: must be about {', '.join(choices)} ({question!r} given)")
        if answer not in choices[question]:
            raise ValueError(
                f"{place}: answers.{question}: must be {' or '.join(choices[question])} ({answer!r} given)"
            )
