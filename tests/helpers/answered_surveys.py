"""Surveys of made-up texts, and judges who answer them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nextword.evaluation.survey import MadeSurvey, make_survey
from nextword.results.records.survey_files import ItemAnswers, JudgeAnswers, Survey, UnitAnswers

MARKUP = "<b>bold</b> <script>alert(1)</script> & café 🎉"

Choose = Callable[[str, str, str, dict[str, str]], str]
"""Judge, item, question and who wrote what, to an answer."""


def samples_file(path: Path, system: str, prompts: int = 12, source: str | None = None) -> Path:
    """What a system wrote after ``prompts`` prompts."""
    document = source or " ".join(f"Fact number {number} is true." for number in range(14))
    with path.open("w", encoding="utf-8") as file:
        for number in range(prompts):
            sample = {
                "id": number,
                "prompt": f"Prompt {number} begins {MARKUP}",
                "auxiliary": f"Topic {number}",
                "source": document,
                "text": f"Text of {number} with {MARKUP} goes on. System {ord(system) % 7} has two sentences.",
                "references": [f"People wrote {number}."],
            }
            file.write(json.dumps(sample) + "\n")
    return path


def made(folder: Path, asks: str = "pairwise", names: str = "ab", **recipe: Any) -> MadeSurvey:
    """A survey of systems called by single letters."""
    files = {name: samples_file(folder / f"{name}.jsonl", name) for name in names}
    return make_survey(asks, files, {"items": 6, "items_per_form": 3, **recipe})


def answered(made: MadeSurvey, form: int, judge: str, choose: Choose) -> JudgeAnswers:
    """A form that a judge filled in, all checks right."""
    survey, key = made.survey, made.key
    items = {item.id: item for item in survey.items}
    said = []
    for page in survey.forms[form].pages:
        units = [
            UnitAnswers(
                id=unit.id,
                answers=key.checks[page.item]
                if page.item in key.checks
                else {
                    one.name: choose(judge, page.item, one.name, key.items[page.item].units[unit.id])
                    for one in survey.questions
                },
            )
            for unit in items[page.item].units
        ]
        said.append(ItemAnswers(id=page.item, digest=survey.digests[page.item], seconds=10, units=units))
    form_id = survey.forms[form].id
    return JudgeAnswers(survey=survey.id, form=form_id, judge=judge, consent=True, items=said)


def prefer(system: str) -> Choose:
    """Judges who always prefer a system."""
    return lambda judge, item, question, writers: next(side for side, name in writers.items() if name == system)


def every_form(made: MadeSurvey, choose: Choose) -> list[JudgeAnswers]:
    """All forms, each filled in by a judge of its own."""
    return [answered(made, form, f"judge-{form}", choose) for form in range(len(made.survey.forms))]


def saved(answers: list[JudgeAnswers], folder: Path) -> list[Path]:
    """Answers as the files that the page hands back."""
    paths = [folder / f"answers-{number}.json" for number in range(len(answers))]
    for one, path in zip(answers, paths, strict=True):
        one.save(path)
    return paths


def unblinded(survey: Survey) -> str:
    """Everything that judges receive, as text."""
    return survey.model_dump_json()
