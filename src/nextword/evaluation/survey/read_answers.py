"""Reads answers from files of the survey page, of Mechanical Turk and of Label Studio."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

from nextword.evaluation.survey.outputs import MARKS
from nextword.results.records.survey_files import ItemAnswers, JudgeAnswers, JudgeRecord, Survey, SurveyKey, UnitAnswers
from nextword.runtime.corpora.row_files import cells_up_to

WORKER, ANSWERS = "WorkerId", "Answer.answers"
"""Columns of Mechanical Turk with the worker and the answers."""

CSV_LIMIT = 10_000_000
"""Maximum number of characters in a CSV cell."""


@dataclass(frozen=True)
class HandedBack:
    """Answers of one judge from one file, or from one row of a file, and the file's name."""

    file: str
    answers: JudgeAnswers


def read_answers(paths: Sequence[Path], survey: Survey) -> tuple[list[HandedBack], list[str]]:
    """Read the answers to ``survey`` in the files ``paths``, which come from judges or platforms.

    Returns:
        The answers in the order of the files, and one message for each file, row or item that cannot be read.
    """
    found: list[HandedBack] = []
    left_out = []
    for path in paths:
        try:
            rows = list(_rows(path, survey))
        except (ValueError, OSError, csv.Error) as problem:
            rows = [([], problem)]
        for place, answers in rows:
            if isinstance(answers, JudgeAnswers):
                found.append(HandedBack(path.name, answers))
            else:
                why = " ".join(str(answers).splitlines()[:3])
                left_out.append(f"{', '.join([path.name, *place])}: left out, cannot be read: {why}")
    return found, left_out


Row = tuple[list[str], JudgeAnswers | Exception]
"""One row of a file: the words that name its position, and its answers or the error."""


def _rows(path: Path, survey: Survey) -> Iterator[Row]:
    if path.suffix == ".csv":
        return _of_mturk(path)
    text = path.read_text(encoding="utf-8-sig")
    return _of_label_studio(text, survey) if text.lstrip().startswith("[") else _of_page(text)


def _tried(read: Callable[..., JudgeAnswers], *given: Any) -> JudgeAnswers | ValueError:
    try:
        return read(*given)
    except ValueError as fault:
        return fault


def _of_page(text: str) -> Iterator[Row]:
    """The answers of one judge. Each invalid item gets its own message."""
    content = _object(json.loads(text), "the file")
    given = content.get("items")
    items = given if isinstance(given, list) else []
    faults = {}
    for at, item in enumerate(items):
        try:
            ItemAnswers.model_validate_json(json.dumps(item))
        except ValidationError as fault:
            place = _place(fault)
            why = f"{place} is wrong" if place else f"{_shown(item)} given"
            faults[at] = ValueError(f"must have answers to an item ({why})")
    kept = {"items": [item for at, item in enumerate(items) if at not in faults]} if faults else {}
    answers = _judge_answers(content | kept)
    yield [], answers
    for at, wrong in faults.items():
        name = items[at].get("id") if isinstance(items[at], dict) else None
        named = f"item {at + 1} ({name})" if isinstance(name, str) else f"item {at + 1}"
        yield [answers.judge, named], wrong


def _of_mturk(path: Path) -> Iterator[Row]:
    """Answers from the rows of a batch's results, without rejected rows."""
    with open(path, encoding="utf-8-sig", newline="") as file, cells_up_to(CSV_LIMIT):
        table = csv.DictReader(file)
        rows, columns = list(table), table.fieldnames or ()
    missing = {WORKER, ANSWERS} - set(columns)
    if missing:
        raise ValueError(f"{path}: must have the columns {WORKER} and {ANSWERS} ({', '.join(missing)} missing)")
    for number, row in enumerate(rows, 1):
        if row.get("AssignmentStatus") != "Rejected":
            yield [f"row {number}"], _tried(_assignment, row)


def _assignment(row: Mapping[str, str | None]) -> JudgeAnswers:
    cell = row[ANSWERS] or ""
    if not cell.strip():
        raise ValueError(f"{ANSWERS} must have answers (none given)")
    content = _object(json.loads(cell), ANSWERS)
    return _answers(content.get("survey", ""), row[WORKER] or "", [content.get("item")])


def _of_label_studio(text: str, survey: Survey) -> Iterator[Row]:
    """Answers from the annotations of a JSON export, without cancelled annotations."""
    values = {
        (question.name, said): choice.value
        for question in survey.questions
        for choice in question.choices
        for said in (choice.value, choice.label)
    }
    for number, task in enumerate(json.loads(text), 1):
        annotations = task.get("annotations") or [] if isinstance(task, dict) else [None]
        for count, annotation in enumerate(annotations, 1):
            if not (isinstance(annotation, dict) and annotation.get("was_cancelled")):
                yield [f"task {number}", f"annotation {count}"], _tried(_annotated, task, annotation, values)


def _annotated(task: Any, annotation: Any, values: Mapping[tuple[str, str], str]) -> JudgeAnswers:
    data = _object(_object(task, "a task").get("data"), "data")
    annotation = _object(annotation, "an annotation")
    said = _said(annotation.get("result") or [], str(data.get("text", "")), values)
    item = {
        "id": data.get("item"), "digest": data.get("digest"), "units": [{"id": data.get("unit"), **said}],
        "seconds": annotation.get("lead_time") or 0,
    }  # fmt: skip
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        person = person.get("email") or person.get("id")
    return _answers(data.get("survey", ""), "" if person is None else str(person), [item])


def _said(results: Any, text: str, values: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    answers, marks = {}, []
    if not isinstance(results, list):
        raise ValueError(f"result must be a list ({_shown(results)} given)")
    for one in results:
        name, value = _object(one, "an entry of result").get("from_name", ""), _object(one.get("value"), "its value")
        if name == MARKS:
            marks.append([_characters(text, value.get(end), end) for end in ("start", "end")])
        elif value.get("choices"):
            said = value["choices"][0] if isinstance(value["choices"], list) else value["choices"]
            answers[name] = values.get((name, str(said)), said)
    return {"answers": answers, "marks": marks}


def _characters(text: str, units: Any, end: str) -> int:
    # browsers count UTF-16 units, and some characters have two units
    if not isinstance(units, int):
        raise ValueError(f"a mark must have its {end} as a whole number ({_shown(units)} given)")
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore"))


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object ({_shown(value)} given)")
    return value


def _shown(value: Any) -> str:
    return json.dumps(value)[:40]


def _answers(survey: Any, judge: str, items: list[Any]) -> JudgeAnswers:
    said = {"survey": survey, "form": "", "judge": judge, "consent": True, "items": items}
    return _judge_answers({"kind": "survey-answers", **said})


def _judge_answers(content: dict[str, Any]) -> JudgeAnswers:
    try:
        return JudgeAnswers.model_validate_json(json.dumps(content))
    except ValidationError as fault:
        place = _place(fault)
        why = f"{place} is wrong" if place else fault.errors()[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"must have answers to a survey of nextword ({why})") from None


def _place(fault: ValidationError) -> str:
    """Path of the first invalid field. Empty if the whole object is invalid."""
    return ".".join(str(step) for step in fault.errors()[0]["loc"])


def merged(items: Sequence[ItemAnswers]) -> ItemAnswers:
    """Merge a judge's answers about the units of one item, which platforms return separately."""
    units: dict[str, UnitAnswers] = {unit.id: unit for one in items for unit in one.units}
    return items[0].model_copy(update={"units": list(units.values()), "seconds": sum(one.seconds for one in items)})


# -- Selection of valid answers. Messages name the answers that are left out.

NAMED = 8
"""Maximum number of ids that one message names."""


@dataclass(frozen=True)
class CountedUnit:
    """One judge's answers about one unit, and the systems of its texts."""

    judge: str
    item: str
    unit: str
    writers: dict[str, str]
    said: UnitAnswers


@dataclass
class Counted:
    """Valid answers to a survey, its judges, and messages about answers that were left out."""

    units: list[CountedUnit] = field(default_factory=list)
    """The valid answers, without checks and without answers of judges who failed the checks."""
    judges: list[JudgeRecord] = field(default_factory=list)
    """All judges with answers to this survey, also those who failed the checks."""
    left_out: list[str] = field(default_factory=list)
    """Messages about answers that were left out."""


def counted(survey: Survey, key: SurveyKey, handed: Sequence[HandedBack]) -> Counted:
    """Select the valid answers in ``handed``. The messages ``left_out`` of the result name the other answers.

    Raises:
        ValueError: If the key belongs to another survey.
    """
    if key.survey != survey.id:
        raise ValueError(
            f"key.json: must belong to survey {survey.id} (belongs to {key.survey}); use both files of the same folder"
        )
    found = Counted()
    now = {item.id: item.digest for item in survey.items}
    edited = {name for name, digest in survey.digests.items() if now.get(name) != digest}
    if edited:
        found.left_out.append(
            f"survey.json: {_listed(edited)} left out, because they were edited after the survey was made"
        )
    by_judge: dict[str, dict[str, list[ItemAnswers]]] = defaultdict(dict)
    for one in handed:
        _take(one, survey, edited, by_judge, found)
    for judge, items in by_judge.items():
        _count(judge, {name: merged(parts) for name, parts in items.items()}, survey, key, found)
    return found


def _take(
    one: HandedBack,
    survey: Survey,
    edited: set[str],
    by_judge: dict[str, dict[str, list[ItemAnswers]]],
    found: Counted,
) -> None:
    """The items of one file that are valid."""
    answers = one.answers
    where = f"{one.file} ({answers.judge})"
    if answers.survey != survey.id:
        found.left_out.append(f"{where}: left out, because it answers another survey ({answers.survey})")
        return
    if not answers.consent:
        found.left_out.append(f"{where}: left out, because there is no consent")
        return
    mine = by_judge[answers.judge]
    unknown, changed, again = [], [], []
    for item in answers.items:
        had = {unit.id for part in mine.get(item.id, []) for unit in part.units}
        if item.id not in survey.digests:
            unknown.append(item.id)
        elif item.id in edited:
            continue
        elif item.digest != survey.digests[item.id]:
            changed.append(item.id)
        elif had & {unit.id for unit in item.units}:
            again.append(item.id)
        elif item.units:
            mine.setdefault(item.id, []).append(item)
    for ids, why in (
        (unknown, "not in this survey"),
        (changed, "the judge saw a text that differs from the survey's"),
        (again, "the same judge answered earlier; the first answer counts"),
    ):
        if ids:
            found.left_out.append(f"{where}: {_listed(ids)} left out, {why}")
    form = next((form for form in survey.forms if form.id == answers.form), None)
    missing = {page.item for page in form.pages} - {item.id for item in answers.items if item.units} if form else set()
    if missing:
        found.left_out.append(f"{where}: {_listed(missing)} not answered; the rest counts")


def _count(judge: str, items: dict[str, ItemAnswers], survey: Survey, key: SurveyKey, found: Counted) -> None:
    """Add a judge's answers, unless the judge failed too many checks."""
    checks = [name for name in items if name in key.checks]
    failed = [
        name
        for name in checks
        if not any(key.checks[name].items() <= unit.answers.items() for unit in items[name].units)
    ]
    real = [name for name in items if name in key.items]
    counts = len(failed) <= key.allowed_failures
    seconds = [items[name].seconds for name in real if items[name].seconds > 0]
    found.judges.append(
        JudgeRecord(
            name=judge, items=len(real) if counts else 0, checks=len(checks), failed=len(failed), counted=counts,
            seconds=median(seconds) if seconds else None,
        )
    )  # fmt: skip
    if not counts:
        found.left_out.append(
            f"{judge}: left out, because the judge failed {len(failed)} of {len(checks)} checks ({_listed(failed)})"
        )
        return
    for name in real:
        found.units += _units(judge, items[name], survey, key, found)


def _units(judge: str, item: ItemAnswers, survey: Survey, key: SurveyKey, found: Counted) -> Iterable[CountedUnit]:
    writers = key.items[item.id].units
    known = {question.name: {choice.value for choice in question.choices} for question in survey.questions}
    for unit in item.units:
        wrong = sorted(name for name, value in unit.answers.items() if value not in known.get(name, ()))
        if unit.id not in writers:
            found.left_out.append(f"{judge}: {item.id}, unit {unit.id} left out, because it is not in this survey")
            continue
        if wrong:
            found.left_out.append(
                f"{judge}: {item.id}, {', '.join(wrong)} left out, because the answer or question does not exist"
            )
        kept = {name: value for name, value in unit.answers.items() if name not in wrong}
        said = unit.model_copy(update={"answers": kept})
        yield CountedUnit(judge, item.id, unit.id, writers[unit.id], said)
    answered = {unit.id for unit in item.units if len(unit.answers) == len(known)}
    if len(answered) < len(writers):
        found.left_out.append(
            f"{judge}: {item.id}, {len(writers) - len(answered & set(writers))} of {len(writers)} texts lack answers; "
            "the rest counts"
        )


def _listed(ids: Iterable[str]) -> str:
    names = sorted(ids)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{'item' if len(names) == 1 else 'items'} {', '.join(names[:NAMED])}{more}"
