"""Faithfulness survey: judges rate each sentence of a summary (HistAlign, table 6, appendix B.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from nextword.evaluation.judges.sentences import sentences_of
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
    most_similar,
    numbers,
    registry,
    shown_document,
)
from nextword.evaluation.survey.survey_settings import SurveyConfig
from nextword.results.records import Measure
from nextword.results.records.survey_files import Choice, Marking, Passage, Question
from nextword.runtime.corpora import json_lines
from nextword.settings.config import Settings, validated

INSTRUCTIONS = """\
You see parts of a document and summaries of it. [...] stands for sentences that were left out. Judge each sentence of \
each summary. The sentences of the document that are nearest to it in meaning are marked.

Coherent: whatever the document says, the sentence reads well and follows on from those before it.

Faithful: everything that the sentence says is in the document or follows from it. Do not use what you know from \
elsewhere. A sentence is not faithful if it contradicts the document, or adds something that the document does not \
say. Then mark the words that are wrong or added.

Informative: the sentence says something that matters in the document. Of a sentence that is not faithful, consider \
only what is right."""

ASKED = {
    "coherence": ("Coherent?", "Coherent", "Not coherent"),
    "faithfulness": ("Faithful?", "Faithful", "Not faithful"),
    "informativeness": ("Informative?", "Informative", "Not informative"),
}


class KnownAnswers(Settings):
    """One line of the file of a qualification test, with the correct answers."""

    source: str
    """The document."""
    text: str
    """A sentence or short summary of the document. It is judged as a whole."""
    answers: dict[str, str]
    """Correct answer to each question, such as {"faithfulness": "no"}."""


class FaithfulnessConfig(SurveyConfig):
    """Settings of a faithfulness survey."""

    typical_spread: ClassVar[float] = 0.6
    items_per_form: int = Field(default=10, ge=1, le=1000)
    """Maximum number of documents per form, without checks. A form is for one judge."""
    near: int = Field(default=10, ge=1, le=200)
    """Number of document sentences that are shown with each sentence of a summary."""
    encoder: str = "minilm"
    """Sentence encoder that selects the sentences for ``near``: "minilm", a folder or a hub name. HistAlign used
    sentence-transformers/all-mpnet-base-v2."""
    qualification: Path | None = None
    """File of JSON lines with correct answers, {"source": ..., "text": ..., "answers": {"faithfulness": "no"}}. Every
    form begins with these items, which count as checks."""


@registry.register("faithfulness")
class Faithfulness(Kind):
    """Judges say whether each sentence of a summary is coherent, faithful and informative."""

    Config = FaithfulnessConfig
    group_title = "Summary"
    instructions = INSTRUCTIONS
    difference = "share of sentences"

    def drafts(
        self, prompts: Mapping[str, Mapping[str, Sample]], encode: Encode, rng: np.random.Generator
    ) -> tuple[list[DraftItem], list[str]]:
        """Make items, each with a document and all systems' summaries in sentences. A note counts unused documents."""
        written = [
            prompt for prompt, samples in prompts.items()
            if all(sentences_of(sample.need("text", "a survey")) for sample in samples.values())
        ]  # fmt: skip
        drawn = self.draw(written, rng, "documents with a summary by every system")
        empty = len(prompts) - len(written)
        notes = [f"{empty} documents left out, because a system has an empty summary"] if empty else []
        cut = []
        for samples in map(prompts.__getitem__, drawn):
            document = sentences_of(next(iter(samples.values())).need("source", "a faithfulness survey"))
            cut.append((document, {name: sentences_of(one.need("text", "a survey")) for name, one in samples.items()}))
        vectors = self._vectors(cut, encode)
        return [self._item(prompt, *one, vectors) for prompt, one in zip(drawn, cut, strict=True)], notes

    def _vectors(self, cut: Sequence[tuple[list[str], dict[str, list[str]]]], encode: Encode) -> Encode:
        """Return a function that looks up sentence vectors. If documents are shown whole, nothing is encoded."""
        long = [(document, summaries) for document, summaries in cut if len(document) > self.config.near]
        every = dict.fromkeys(
            sentence for document, summaries in long for text in (document, *summaries.values()) for sentence in text
        )
        known = dict(zip(every, encode(list(every)), strict=True)) if every else {}
        return lambda texts: np.stack([known[text] for text in texts])

    def _item(self, prompt: str, document: list[str], summaries: dict[str, list[str]], encode: Encode) -> DraftItem:
        config: FaithfulnessConfig = self.config
        every = [sentence for sentences in summaries.values() for sentence in sentences]
        near = dict(zip(every, most_similar(every, document, config.near, encode), strict=True))
        lines, places = shown_document(document, {place for found in near.values() for place in found})
        groups = [
            DraftGroup(
                {ONE_TEXT: name},
                [
                    DraftUnit([Passage(title="", lines=[sentence])], [places[place] for place in near[sentence]])
                    for sentence in sentences
                ],
            )
            for name, sentences in summaries.items()
        ]
        return DraftItem(prompt, [Passage(title="Document", lines=lines)], groups)

    def questions(self) -> list[Question]:
        """The questions about each sentence: coherence, faithfulness and informativeness."""
        return [
            Question(
                name=name, text=text, choices=[Choice(value="yes", label=yes), Choice(value="no", label=no)],
                levels=["nominal"],
            )
            for name, (text, yes, no) in ASKED.items()
        ]  # fmt: skip

    def known(self) -> list[tuple[DraftItem, dict[str, str]]]:
        """Items of the qualification test, each with a mapping from question to its correct answer."""
        path = self.config.qualification
        return [] if path is None else _known_items(path, self.questions())

    def marking(self) -> Marking:
        """The task of marking the wrong or added words of a sentence, after the answer "Not faithful"."""
        return Marking(question="faithfulness", value="no", text="Mark the words that are wrong or added:")

    def scored(self, question: Question, answers: Judgements) -> list[AnswerMeasure]:
        """For each system, the share of "yes" among the answers to ``question`` about its sentences."""
        yes = question.choices[0].label.lower()
        measure = Measure(
            title=question.choices[0].label, group=question.name.capitalize(), unit="share of sentences",
            goal="higher", decimals=1,
            meaning=f"{question.choices[0].label}: share of sentences that judges call {yes}; each answer counts once.",
        )  # fmt: skip
        return [AnswerMeasure(question.name, measure, numbers(answers, ONE_TEXT, lambda value: float(value == "yes")))]


def _known_items(path: Path, questions: Sequence[Question]) -> list[tuple[DraftItem, dict[str, str]]]:
    """Items with their correct answers, one per line. Questions without a correct answer are not checked."""
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
        raise ValueError(f"{place}: answers: must have a correct answer (none given); give one of {', '.join(choices)}")
    for question, answer in answers.items():
        if question not in choices:
            raise ValueError(f"{place}: answers: must be about {', '.join(choices)} ({question!r} given)")
        if answer not in choices[question]:
            raise ValueError(
                f"{place}: answers.{question}: must be {' or '.join(choices[question])} ({answer!r} given)"
            )
