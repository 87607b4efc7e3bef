"""Items with an answer that everyone who reads them knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nextword.evaluation.survey.kinds.kind import DraftGroup, DraftItem, DraftUnit
from nextword.results.records.survey_files import Passage, Question


def check_item(
    donor: DraftItem, questions: Sequence[Question], sentence: str, rng: np.random.Generator
) -> tuple[DraftItem, dict[str, str]]:
    """A text that asks for certain answers, among passages of a real item.

    Args:
        donor: The item whose passages and first text are taken.
        questions: Of the survey.
        sentence: What is put behind the text, with ``{answers}`` for the right answers.
        rng: Draws them.

    Returns:
        The item, and the right answer to each question.
    """
    right = {question.name: question.choices[int(rng.integers(len(question.choices)))] for question in questions}
    wanted = " and ".join(f'"{right[one.name].label}" for {one.name}' for one in questions)
    unit = donor.groups[0].units[0]
    *others, last = unit.texts
    asking = f"{last.lines[-1]} {sentence.format(answers=wanted)}"
    texts = [*others, Passage(title=last.title, lines=[*last.lines[:-1], asking])]
    item = DraftItem(donor.prompt, donor.passages, [DraftGroup({}, [DraftUnit(texts, unit.near)])])
    return item, {name: choice.value for name, choice in right.items()}
