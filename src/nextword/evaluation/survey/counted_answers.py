"""Which answers count, and what does not, by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from nextword.evaluation.survey.read_answers import HandedBack, merged
from nextword.results.records.survey_files import ItemAnswers, Survey, SurveyKey, UnitAnswers
from nextword.results.records.survey_results import JudgeRecord

NAMED = 8
"""Ids that one message names."""


@dataclass(frozen=True)
class CountedUnit:
    """What one judge said about one unit, and who wrote it."""

    judge: str
    item: str
    unit: str
    writers: dict[str, str]
    said: UnitAnswers


@dataclass
class Counted:
    """What counts.

    Attributes:
        units: Answers, without those of judges who failed checks, and without checks.
        judges: Everyone who handed something back to this survey.
        left_out: What does not count, and why.
    """

    units: list[CountedUnit] = field(default_factory=list)
    judges: list[JudgeRecord] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def counted(survey: Survey, key: SurveyKey, handed: Sequence[HandedBack]) -> Counted:
    """Sorts out what does not count: each thing is named, and the rest counts.

    Args:
        survey: As it was made.
        key: Of the same survey.
        handed: Everything that came back.

    Raises:
        ValueError: The key is of another survey.
    """
    if key.survey != survey.id:
        raise ValueError(f"key.json: must be of survey {survey.id} (of {key.survey}); take both from one folder")
    found = Counted()
    now = {item.id: item.digest for item in survey.items}
    edited = {name for name, digest in survey.digests.items() if now.get(name) != digest}
    if edited:
        found.left_out.append(f"survey.json: {_listed(edited)} left out, edited since the survey was made")
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
    """Items of one file that can count."""
    answers = one.answers
    where = f"{one.file} ({answers.judge})"
    if answers.survey != survey.id:
        found.left_out.append(f"{where}: left out, answers to another survey ({answers.survey})")
        return
    if not answers.consent:
        found.left_out.append(f"{where}: left out, no consent")
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
        (changed, "the judge saw another text than the survey has"),
        (again, "the same judge answered before; the first answer counts"),
    ):
        if ids:
            found.left_out.append(f"{where}: {_listed(ids)} left out, {why}")
    form = next((form for form in survey.forms if form.id == answers.form), None)
    missing = {page.item for page in form.pages} - {item.id for item in answers.items if item.units} if form else set()
    if missing:
        found.left_out.append(f"{where}: {_listed(missing)} not answered; the rest counts")


def _count(judge: str, items: dict[str, ItemAnswers], survey: Survey, key: SurveyKey, found: Counted) -> None:
    """A judge's answers, unless too many checks are wrong."""
    checks = [name for name in items if name in key.checks]
    failed = [name for name in checks if not _right(items[name], key.checks[name])]
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
        found.left_out.append(f"{judge}: left out, failed {len(failed)} of {len(checks)} checks ({_listed(failed)})")
        return
    for name in real:
        found.units += _units(judge, items[name], survey, key, found)


def _units(judge: str, item: ItemAnswers, survey: Survey, key: SurveyKey, found: Counted) -> Iterable[CountedUnit]:
    writers = key.items[item.id].units
    known = {question.name: {choice.value for choice in question.choices} for question in survey.questions}
    for unit in item.units:
        wrong = sorted(name for name, value in unit.answers.items() if value not in known.get(name, ()))
        if unit.id not in writers:
            found.left_out.append(f"{judge}: {item.id}, unit {unit.id} left out, not in this survey")
            continue
        if wrong:
            found.left_out.append(f"{judge}: {item.id}, {', '.join(wrong)} left out, no such answer or question")
        kept = {name: value for name, value in unit.answers.items() if name not in wrong}
        said = unit.model_copy(update={"answers": kept})
        yield CountedUnit(judge, item.id, unit.id, writers[unit.id], said)
    answered = {unit.id for unit in item.units if len(unit.answers) == len(known)}
    if len(answered) < len(writers):
        found.left_out.append(
            f"{judge}: {item.id}, {len(writers) - len(answered & set(writers))} of {len(writers)} texts lack answers; "
            "the rest counts"
        )


def _right(item: ItemAnswers, right: dict[str, str]) -> bool:
    return any(right.items() <= unit.answers.items() for unit in item.units)


def _listed(ids: Iterable[str]) -> str:
    names = sorted(ids)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{'item' if len(names) == 1 else 'items'} {', '.join(names[:NAMED])}{more}"
