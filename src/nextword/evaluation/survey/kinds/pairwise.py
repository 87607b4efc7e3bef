"""Pairwise survey: judges compare two continuations of one prompt, shown side by side (HistAlign, table 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from nextword.evaluation.metrics import Sample
from nextword.evaluation.survey.kinds.kind import (
    AnswerMeasure,
    DraftGroup,
    DraftItem,
    DraftUnit,
    Encode,
    Judgements,
    Kind,
    SystemAnswers,
    registry,
)
from nextword.evaluation.survey.survey_settings import SurveyConfig
from nextword.results.records import Measure
from nextword.results.records.survey_files import Choice, Passage, Question

SIDES = ("a", "b")

INSTRUCTIONS = """\
Below a text that a person began, you see two continuations, A and B. Say which of them is better in each respect, or \
that they are the same.

Fluency: it reads as if a person had written it, without mistakes of grammar, and is easy to understand.

Coherence: it follows from the beginning in meaning and in facts, and does not contradict it or itself.

Overall: which of the two you would rather have read.

Neither has to be better: choose "A and B are the same" where both are equally good or equally bad. Facts need not be \
looked up. Texts may stop in the middle of a sentence; that does not count."""

ASKED = {
    "fluency": "Fluency: which is better written?",
    "coherence": "Coherence: which continues the beginning better?",
    "overall": "Overall: which is better?",
}


class PairwiseConfig(SurveyConfig):
    """Settings of a pairwise survey."""

    typical_spread: ClassVar[float] = 0.9
    longest_difference: int = Field(default=200, ge=0, le=1_000_000)
    """Maximum difference in length between the two texts, in characters. A much shorter text has fewer chances of
    mistakes."""


@registry.register("pairwise")
class Pairwise(Kind):
    """Judges say which of two continuations is better."""

    Config = PairwiseConfig
    instructions = INSTRUCTIONS
    difference = "net win rate, as a share of answers"

    def check_systems(self, names: Sequence[str]) -> None:
        """Raise ValueError unless there are two systems."""
        if len(names) != 2:
            raise ValueError(f"pairwise: must have 2 samples files ({len(names)} given); compare two at a time")

    def drafts(
        self, prompts: Mapping[str, Mapping[str, Sample]], encode: Encode, rng: np.random.Generator
    ) -> tuple[list[DraftItem], list[str]]:
        """Make items: pairs of texts of similar length. Each system is text A in half of the items."""
        config: PairwiseConfig = self.config
        usable = []
        for prompt, samples in prompts.items():
            lengths = [len(sample.need("text", "a survey")) for sample in samples.values()]
            if max(lengths) - min(lengths) <= config.longest_difference and min(lengths) > 0:
                usable.append(prompt)
        found = f"prompts with texts that differ by at most {config.longest_difference} characters"
        drawn = self.draw(usable, rng, found)
        swapped = rng.permutation(np.arange(len(drawn)) % 2 == 1)
        items = []
        for prompt, swap in zip(drawn, swapped, strict=True):
            samples = prompts[prompt]
            names = list(samples)[::-1] if swap else list(samples)
            texts = [
                Passage(title=side.upper(), lines=[samples[name].need("text", "a survey").strip()])
                for side, name in zip(SIDES, names, strict=True)
            ]
            began = next(iter(samples.values())).need("prompt", "a pairwise survey")
            group = DraftGroup(dict(zip(SIDES, names, strict=True)), [DraftUnit(texts)])
            items.append(DraftItem(prompt, [Passage(title="Beginning", lines=[began])], [group]))
        return items, [f"{len(usable):,} of {len(prompts):,} {found}"]

    def questions(self) -> list[Question]:
        """The questions: fluency, coherence, overall."""
        choices = [
            Choice(value="a", label="A is better"),
            Choice(value="b", label="B is better"),
            Choice(value="same", label="A and B are the same"),
        ]
        return [Question(name=name, text=text, choices=choices, levels=["nominal"]) for name, text in ASKED.items()]

    def scored(self, question: Question, answers: Judgements) -> list[AnswerMeasure]:
        """For each system, the share of answers that prefer it, and the share that calls both texts the same."""
        systems = sorted({system for writers in answers.writers for system in writers.values()})
        preferred = np.array([w.get(v, "") for v, w in zip(answers.values, answers.writers, strict=True)])
        ties = SystemAnswers((preferred == "").astype(np.float64), answers.items, answers.judges)
        wins = {
            system: SystemAnswers((preferred == system).astype(np.float64), answers.items, answers.judges)
            for system in systems
        }
        title = question.name.capitalize()
        preferred_measure = Measure(
            title=f"{title} preferred", group=title, unit="share of answers", goal="higher", decimals=1,
            meaning=f"{title} preferred: share of answers that call the system's text better in {question.name}.",
        )  # fmt: skip
        tie_measure = Measure(
            title=f"{title} same", group=title, unit="share of answers", goal=None, decimals=1,
            meaning=f"{title} same: share of answers that call both texts the same in {question.name}.",
        )  # fmt: skip
        return [
            AnswerMeasure(question.name, preferred_measure, wins),
            AnswerMeasure(f"{question.name}-same", tie_measure, dict.fromkeys(systems, ties), tested=False),
        ]
