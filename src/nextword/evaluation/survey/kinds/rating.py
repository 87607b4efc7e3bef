"""Rating survey: judges rate the texts of all systems and the reference from 1 to 5 (He, Chen and Kim, 2020, 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from nextword.evaluation.metrics import Sample
from nextword.evaluation.survey.kinds.kind import (
    ONE_TEXT,
    AnswerMeasure,
    DraftGroup,
    DraftItem,
    DraftUnit,
    Encode,
    Judgements,
    Kind,
    SystemAnswers,
    numbers,
    registry,
)
from nextword.evaluation.survey.survey_settings import SurveyConfig
from nextword.results.records import Measure
from nextword.results.records.survey_files import Choice, Passage, Question

REFERENCE = "reference"
"""Name of the human references among the systems."""

INSTRUCTIONS = """\
You see several texts that were written about the same topic. Rate each of them from 1 to 5, by itself.

Fluency: 5 reads as if a careful writer had written it; 1 cannot be understood.

Topic coherence: 5 is about the topic from beginning to end; 1 has nothing to do with it.

Texts may stop in the middle of a sentence; that does not count."""

ASKED = {
    "fluency": "Fluency (1 cannot be understood, 5 as by a careful writer)",
    "topic": "Topic coherence (1 another topic, 5 on the topic throughout)",
}
POINTS = 5


class RatingConfig(SurveyConfig):
    """Settings of a rating survey."""

    typical_spread: ClassVar[float] = 1.4
    items_per_form: int = Field(default=3, ge=1, le=1000)
    """Maximum number of prompts (with the texts of all systems) per form, without checks. A form is for one judge."""
    checks: int = Field(default=1, ge=0, le=50)
    """Number of attention checks per form."""
    reference: bool = True
    """Whether judges also rate the human references."""
    show_prompt: bool = True
    """Whether judges see the topic of the texts: the field ``auxiliary`` of the samples or, without it, the prompt."""


@registry.register("rating")
class Rating(Kind):
    """Judges rate each text from 1 to 5."""

    Config = RatingConfig
    group_title = "Text"
    instructions = INSTRUCTIONS
    difference = "points of the scale from 1 to 5"

    def check_systems(self, names: Sequence[str]) -> None:
        """Raise ValueError if a system has the name of the human references."""
        if REFERENCE in names:
            raise ValueError(
                f"rating: must not have a system '{REFERENCE}'; this name is reserved for the human references; "
                f"give another NAME=FILE"
            )

    def drafts(
        self, prompts: Mapping[str, Mapping[str, Sample]], encode: Encode, rng: np.random.Generator
    ) -> tuple[list[DraftItem], list[str]]:
        """Make items, each with all systems' texts for a prompt and, if ``reference`` is true, the first reference."""
        config: RatingConfig = self.config
        items = []
        for prompt in self.draw(list(prompts), rng, "the prompts that all files have"):
            samples = prompts[prompt]
            first = next(iter(samples.values()))
            texts = {name: sample.need("text", "a survey") for name, sample in samples.items()}
            if config.reference:
                why = "a rating with the reference (reference=false leaves it out)"
                texts[REFERENCE] = first.need("references", why)[0]
            groups = [
                DraftGroup({ONE_TEXT: name}, [DraftUnit([Passage(title="", lines=[text.strip()])])])
                for name, text in texts.items()
            ]
            passages = []
            if config.show_prompt:
                why = "a rating that shows the topic (show_prompt=false hides it)"
                passages.append(Passage(title="Topic", lines=[first.auxiliary or first.need("prompt", why)]))
            items.append(DraftItem(prompt, passages, groups))
        return items, []

    def questions(self) -> list[Question]:
        """The questions: fluency and topic coherence."""
        choices = [Choice(value=str(point), label=str(point)) for point in range(1, POINTS + 1)]
        return [
            Question(name=name, text=text, choices=choices, levels=["ordinal", "interval"])
            for name, text in ASKED.items()
        ]

    def scored(self, question: Question, answers: Judgements) -> list[AnswerMeasure]:
        """For each system: its mean points, and the mean rank of its text among the texts of one prompt and judge."""
        title = question.text.partition(" (")[0]
        points = Measure(
            title=f"{title} mean", group=title, unit="points from 1 to 5", goal="higher", decimals=2,
            meaning=f"{title} mean: mean of the points given for {title.lower()}.",
        )  # fmt: skip
        ranks = Measure(
            title=f"{title} mean rank", group=title, unit="rank (1 is the best of its set)", goal="lower", decimals=2,
            meaning=f"{title} mean rank: mean rank of the system's text among the texts of the same prompt, by one "
                    f"judge's points "
            "(ties share the mean rank). It does not depend on how judges use the scale or on the prompt's difficulty.",
        )  # fmt: skip
        values = numbers(answers, ONE_TEXT, float)
        return [
            AnswerMeasure(question.name, points, values),
            AnswerMeasure(f"{question.name}-rank", ranks, ranks_within(values)),
        ]


# -- Ranks within the texts that one judge read together.


def ranks_within(values: Mapping[str, SystemAnswers]) -> dict[str, SystemAnswers]:
    """Replace each system's values by ranks among the systems, for each judge and item. Rank 1 is the highest value.

    Equal values share the mean of their ranks. An item for which a judge rated only one system is left out.
    """
    from scipy.stats import rankdata

    cells: dict[tuple[int, int], dict[str, float]] = {}
    for system, scores in values.items():
        for value, item, judge in zip(scores.values, scores.items, scores.judges, strict=True):
            cells.setdefault((int(item), int(judge)), {})[system] = float(value)
    rows: dict[str, list[tuple[float, int, int]]] = {system: [] for system in values}
    for (item, judge), cell in cells.items():
        if len(cell) > 1:
            for system, rank in zip(cell, rankdata([-value for value in cell.values()]), strict=True):
                rows[system].append((float(rank), item, judge))
    return {
        system: SystemAnswers(
            np.array([rank for rank, _, _ in found]),
            np.array([item for _, item, _ in found], dtype=np.int64),
            np.array([judge for _, _, judge in found], dtype=np.int64),
        )
        for system, found in rows.items()
    }
