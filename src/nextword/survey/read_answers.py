"""What judges handed back: files of the page, of Mechanical Turk and of Label Studio."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nextword.records.survey_files import ItemAnswers, JudgeAnswers, Survey, UnitAnswers
from nextword.survey.outputs.label_studio import MARKS

CSV_LIMIT = 10_000_000
"""Characters of one cell."""


@dataclass(frozen=True)
class HandedBack:
    """Answers of one judge, and the file that they come from."""

    file: str
    answers: JudgeAnswers


def read_answers(paths: Sequence[Path], survey: Survey) -> tuple[list[HandedBack], list[str]]:
    """Everything that can be read, and what cannot, by name.

    Args:
        paths: Files that judges or platforms handed back.
        survey: The survey, which knows the labels of answers.

    Returns:
        Answers in the order of the files, and a line for each file or row that is none.
    """
    found: list[HandedBack] = []
    left_out = []
    for path in paths:
        try:
            found += [HandedBack(path.name, answers) for answers in _reader(path)(path, survey)]
        except (ValueError, OSError) as problem:
            first, *others = str(problem).splitlines()
            left_out.append(f"{path.name}: left out, cannot be read: {' '.join([first, *others[:2]])}")
    return found, left_out


Reader = Callable[[Path, Survey], Iterator[JudgeAnswers]]


def _reader(path: Path) -> Reader:
    if path.suffix == ".csv":
        return _of_mturk
    return _of_label_studio if path.read_text(encoding="utf-8-sig").lstrip().startswith("[") else _of_page


def _of_page(path: Path, survey: Survey) -> Iterator[JudgeAnswers]:
    yield JudgeAnswers.load(path)


def _of_mturk(path: Path, survey: Survey) -> Iterator[JudgeAnswers]:
    """Rows of a batch's results; rejected ones do not count."""
    csv.field_size_limit(CSV_LIMIT)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        missing = {"WorkerId", "Answer.answers"} - set(rows.fieldnames or ())
        if missing:
            raise ValueError(
                f"{path}: must have the columns WorkerId and Answer.answers ({', '.join(missing)} missing)"
            )
        for row in rows:
            if row.get("AssignmentStatus") != "Rejected":
                content = json.loads(row["Answer.answers"])
                yield _answers(content.get("survey", ""), row["WorkerId"], [content.get("item")], path)


def _of_label_studio(path: Path, survey: Survey) -> Iterator[JudgeAnswers]:
    """Annotations of an export as JSON; cancelled ones do not count."""
    values = {
        (question.name, said): choice.value
        for question in survey.questions
        for choice in question.choices
        for said in (choice.value, choice.label)
    }
    for task in json.loads(path.read_text(encoding="utf-8-sig")):
        data = task.get("data", {})
        for annotation in task.get("annotations", []):
            if annotation.get("was_cancelled"):
                continue
            unit = {"id": data.get("unit"), **_said(annotation.get("result", []), data.get("text", ""), values)}
            item = {
                "id": data.get("item"), "digest": data.get("digest"), "units": [unit],
                "seconds": annotation.get("lead_time") or 0,
            }  # fmt: skip
            yield _answers(data.get("survey", ""), _person(annotation.get("completed_by")), [item], path)


def _person(completed_by: Any) -> str:
    person = completed_by.get("email") or completed_by.get("id") if isinstance(completed_by, dict) else completed_by
    return "" if person is None else str(person)


def _said(results: list[dict[str, Any]], text: str, values: dict[tuple[str, str], str]) -> dict[str, Any]:
    answers, marks = {}, []
    for one in results:
        name, value = one.get("from_name", ""), one.get("value", {})
        if name == MARKS:
            marks.append([_characters(text, value["start"]), _characters(text, value["end"])])
        elif value.get("choices"):
            said = value["choices"][0]
            answers[name] = values.get((name, said), said)
    return {"answers": answers, "marks": marks}


def _characters(text: str, units: int) -> int:
    """Browsers count in units of UTF-16, of which some characters take two."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore"))


def _answers(survey: Any, judge: str, items: list[Any], path: Path) -> JudgeAnswers:
    content = {
        "kind": "survey-answers", "survey": survey, "form": "", "judge": judge, "consent": True, "items": items,
    }  # fmt: skip
    try:
        return JudgeAnswers.model_validate_json(json.dumps(content))
    except ValidationError as fault:
        place = ".".join(str(step) for step in fault.errors()[0]["loc"])
        raise ValueError(f"{path}: must have answers to a survey of nextword in each row ({place} is wrong)") from None


def merged(items: Sequence[ItemAnswers]) -> ItemAnswers:
    """Answers to parts of one item by one judge, as a platform hands them out, as one."""
    units: dict[str, UnitAnswers] = {unit.id: unit for one in items for unit in one.units}
    return items[0].model_copy(update={"units": list(units.values()), "seconds": sum(one.seconds for one in items)})
