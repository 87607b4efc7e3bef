r"""Writes what docs/survey.md begins with: samples files of two systems, and answers of made-up judges.

python docs/images/survey_example.py samples FOLDER
python docs/images/survey_example.py answers SURVEY FOLDER

The texts are those of docs/images/texts. System "next" goes on as the text does, system "mixed" with sentences from
elsewhere in it. The made-up judges prefer "next" in 55 of 100 answers and "mixed" in 20, and call 3 of 4 sentences of
"next" faithful, 1 of 2 of "mixed"; one judge in ten does not read.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from nextword.evaluation.judges.sentences import sentences_of
from nextword.results.records.survey_files import ItemAnswers, JudgeAnswers, Survey, SurveyItem, SurveyKey, UnitAnswers

TEXTS = Path(__file__).parent / "texts"
LIKELY = {
    "pairwise": {"next": 0.55, "mixed": 0.2, "same": 0.25},
    "faithfulness": {"next": 0.75, "mixed": 0.5},
    "rating": {"next": 4.0, "mixed": 3.0, "reference": 4.5},
}


def write_samples(folder: Path) -> None:
    """Two samples files of 40 prompts: three sentences, and the three after them."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    sentences = [one for name in ("dragon", "article") for one in sentences_of((TEXTS / f"{name}.txt").read_text())]
    lines: dict[str, list[str]] = {"next": [], "mixed": []}
    for number in range(40):
        at = draw.randrange(len(sentences) - 16)
        prompt, following = sentences[at : at + 3], sentences[at + 3 : at + 5]
        written = {"next": following, "mixed": [following[0], draw.choice(sentences)]}
        for system, text in written.items():
            sample = {
                "id": number, "prompt": " ".join(prompt), "text": " ".join(text), "references": [" ".join(following)],
                "source": " ".join(sentences[at : at + 16]),
            }  # fmt: skip
            lines[system].append(json.dumps(sample, ensure_ascii=False) + "\n")
    for system, written_lines in lines.items():
        (folder / f"{system}.jsonl").write_text("".join(written_lines), encoding="utf-8")


def write_answers(survey_folder: Path, folder: Path) -> None:
    """A file for each form."""
    folder.mkdir(parents=True, exist_ok=True)
    survey, key = Survey.load(survey_folder / "survey.json"), SurveyKey.load(survey_folder / "key.json")
    items, draw = {item.id: item for item in survey.items}, random.Random(1)
    for form in survey.forms:
        reads = int(form.id) % 10 != 0
        said = []
        for page in form.pages:
            right = key.checks.get(page.item)
            writers = {} if right else key.items[page.item].units
            units = [
                UnitAnswers(id=unit, answers=right if right and reads else answers(survey, writers.get(unit, {}), draw))
                for unit in page.order
            ]
            units = [marked(unit, items[page.item], draw) for unit in units]
            digest = survey.digests[page.item]
            said.append(ItemAnswers(id=items[page.item].id, digest=digest, seconds=draw.uniform(20, 90), units=units))
        name = f"judge-{int(form.id):02d}"
        JudgeAnswers(survey=survey.id, form=form.id, judge=name, consent=True, items=said).save(folder / f"{name}.json")


def marked(unit: UnitAnswers, item: SurveyItem, draw: random.Random) -> UnitAnswers:
    """A stretch of a sentence that is not faithful."""
    if unit.answers.get("faithfulness") != "no":
        return unit
    (text,) = next(one for one in item.units if one.id == unit.id).texts[-1].lines
    start, end = sorted(draw.sample(range(len(text) + 1), 2))
    return unit.model_copy(update={"marks": [[start, end]]})


def answers(survey: Survey, writers: dict[str, str], draw: random.Random) -> dict[str, str]:
    """What a made-up judge says about a unit."""
    return {one.name: answer(survey.asks, writers, [choice.value for choice in one.choices], draw)
            for one in survey.questions}  # fmt: skip


def answer(asks: str, writers: dict[str, str], values: list[str], draw: random.Random) -> str:
    """One answer; without writers, as of a check that is not read, the first."""
    likely = LIKELY[asks]
    if not writers:
        return values[0]
    if asks == "pairwise":
        shares = [likely[writers.get(value, "same")] for value in values]
        return draw.choices(values, shares)[0]
    if asks == "faithfulness":
        return "yes" if draw.random() < likely[writers["text"]] else "no"
    return str(min(5, max(1, round(draw.gauss(likely[writers["text"]], 1)))))


if __name__ == "__main__":
    {"samples": write_samples, "answers": write_answers}[sys.argv[1]](*map(Path, sys.argv[2:]))
