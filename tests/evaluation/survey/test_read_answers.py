"""Files of the platforms, in the form in which they come back."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from nextword.evaluation.survey import MadeSurvey, survey_results
from nextword.evaluation.survey.outputs import write_survey
from nextword.evaluation.survey.read_answers import read_answers
from tests.helpers.answered_surveys import answered, made, prefer


@pytest.fixture
def pairs(tmp_path: Path) -> MadeSurvey:
    survey = made(tmp_path, judges=2)
    write_survey(survey, tmp_path / "survey")
    return survey


def mturk(survey: MadeSurvey, tmp_path: Path, status: str = "Submitted") -> Path:
    """A batch's results: a row for each answer, as the requester page exports them."""
    path = tmp_path / "batch.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, ["HITId", "WorkerId", "AssignmentStatus", "Input.item_id", "Answer.answers"])
        rows.writeheader()
        for form in range(len(survey.survey.forms)):
            said = answered(survey, form, f"W{form % 2}", prefer("a"))
            for item in said.items:
                content = {"survey": said.survey, "item": item.model_dump(mode="json")}
                rows.writerow(
                    {
                        "HITId": "1", "WorkerId": said.judge, "AssignmentStatus": status, "Input.item_id": item.id,
                        "Answer.answers": json.dumps(content),
                    }
                )  # fmt: skip
    return path


def test_rows_of_mechanical_turk_are_counted(pairs: MadeSurvey, tmp_path: Path) -> None:
    results = survey_results(tmp_path / "survey", [mturk(pairs, tmp_path)], resamples=50)
    assert results.left_out == []
    assert {one.name: one.items for one in results.judges} == {"W0": 6, "W1": 6}
    assert results.duels[0].win.value == 1


def test_reading_leaves_the_limit_of_csv_as_it_was(pairs: MadeSurvey, tmp_path: Path) -> None:
    before = csv.field_size_limit()
    read_answers([mturk(pairs, tmp_path, "Approved")], pairs.survey)
    assert csv.field_size_limit() == before


def test_rejected_rows_do_not_count(pairs: MadeSurvey, tmp_path: Path) -> None:
    assert read_answers([mturk(pairs, tmp_path, "Rejected")], pairs.survey) == ([], [])


def test_the_cell_of_mechanical_turk_holds_the_item(pairs: MadeSurvey, tmp_path: Path) -> None:
    limit = csv.field_size_limit(10_000_000)
    with (tmp_path / "survey" / "for-judges" / "mturk" / "items.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    csv.field_size_limit(limit)
    assert {row["item_id"] for row in rows} == {item.id for item in pairs.survey.items}
    items = {item.id: item for item in pairs.survey.items}
    for row in rows:
        content = json.loads(base64.b64decode(row["item"]))
        assert content == {
            "item": items[row["item_id"]].model_dump(mode="json"),
            "digest": items[row["item_id"]].digest,
        }


def label_studio(survey: MadeSurvey, tmp_path: Path, asks: Any) -> Path:
    """An export: the tasks that were imported, with annotations."""
    tasks = json.loads((tmp_path / "survey" / "for-judges" / "label-studio" / "tasks.json").read_text(encoding="utf-8"))
    for task in tasks:
        task["annotations"] = [
            {"completed_by": {"id": 1, "email": "ann@example.org"}, "lead_time": 12.5, "result": asks(task["data"])},
            {"completed_by": 2, "lead_time": 9, "was_cancelled": True, "result": []},
        ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


WITHOUT_A_CHECK = {"coherence": "yes", "faithfulness": "no", "informativeness": "yes"}
"""What a judge of summaries says where no check asks for something."""


def test_annotations_of_label_studio_are_counted(tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", near=20, judges=1)
    write_survey(survey, tmp_path / "survey")
    labels = {one.name: {choice.value: choice.label for choice in one.choices} for one in survey.survey.questions}

    def said(data: dict[str, str]) -> list[dict[str, Any]]:
        right = survey.key.checks.get(data["item"], WITHOUT_A_CHECK)
        choices = [
            {"from_name": name, "type": "choices", "value": {"choices": [labels[name][value]]}}
            for name, value in right.items()
        ]
        place = len(data["text"].encode("utf-16-le")) // 2  # browsers count in units of UTF-16
        return [
            *choices,
            {"from_name": "marks", "type": "labels", "value": {"start": 0, "end": place, "labels": ["x"]}},
        ]

    results = survey_results(tmp_path / "survey", [label_studio(survey, tmp_path, said)], resamples=50)
    assert results.left_out == []
    assert [(one.name, one.items, one.failed) for one in results.judges] == [("ann@example.org", 6, 0)]
    values = results.judged.systems[0].values
    assert {name: values[name].value for name in WITHOUT_A_CHECK} == {
        "coherence": 1, "faithfulness": 0, "informativeness": 1,
    }  # fmt: skip
    assert {value.value for value in results.marked.values()} == {1}


def test_places_in_text_beyond_the_basic_plane_are_characters(tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", near=20, judges=1)
    write_survey(survey, tmp_path / "survey")
    mark = lambda data: [  # noqa: E731
        {"from_name": "marks", "value": {"start": 0, "end": len(data["text"].encode("utf-16-le")) // 2}}
    ]
    handed, left_out = read_answers([label_studio(survey, tmp_path, mark)], survey.survey)
    texts = {(item.id, unit.id): unit.texts[0].lines[0] for item in survey.survey.items for unit in item.units}
    assert left_out == []
    assert any("🎉" in text for text in texts.values())
    for one in handed:
        (item,) = one.answers.items
        assert item.units[0].marks == [[0, len(texts[item.id, item.units[0].id])]]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "WorkerId\nx\n", "must have the columns WorkerId and Answer.answers (Answer.answers missing)"),
        ("a.json", "[{}", "cannot be read"),
        ("a.json", '{"kind": "survey-answers", "schema_version": 99}', "written by a newer nextword"),
        ("missing.json", None, "cannot be read"),
    ],
)
def test_what_is_none_is_named(pairs: MadeSurvey, tmp_path: Path, name: str, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    handed, left_out = read_answers([tmp_path / name], pairs.survey)
    assert handed == []
    assert len(left_out) == 1
    assert left_out[0].startswith(f"{name}: left out, cannot be read")
    assert why in left_out[0]


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("", "Answer.answers must have answers (none given)"),
        ("[]", "Answer.answers must be a JSON object ([] given)"),
        ("7", "Answer.answers must be a JSON object (7 given)"),
        ("{half", "Expecting property name"),
        ('{"survey": "s"}', "must have answers to a survey of nextword (items.0 is wrong)"),
        (None, "Answer.answers must have answers (none given)"),
    ],
)
def test_a_row_that_is_none_is_left_out_alone(pairs: MadeSurvey, tmp_path: Path, cell: str | None, why: str) -> None:
    path = mturk(pairs, tmp_path)
    complete = len(read_answers([path], pairs.survey)[0])
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(["1"] if cell is None else ["1", "W9", "Submitted", "item", cell])
    handed, left_out = read_answers([path], pairs.survey)
    assert len(handed) == complete
    assert len(left_out) == 1
    assert left_out[0].startswith(f"batch.csv, row {complete + 1}: left out, cannot be read: ")
    assert why in left_out[0]
    assert survey_results(tmp_path / "survey", [path], resamples=50).left_out == left_out


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"data": None, "annotations": [{}]}, "data must be a JSON object (null given)"),
        (7, "a task must be a JSON object (7 given)"),
        ({"data": {}, "annotations": [3]}, "an annotation must be a JSON object (3 given)"),
        ({"data": {}, "annotations": [{"result": {"a": 1}}]}, "result must be a list"),
        ({"data": {}, "annotations": [{"result": [None]}]}, "an entry of result must be a JSON object (null given)"),
        (
            {"data": {}, "annotations": [{"result": [{"from_name": "x", "value": None}]}]},
            "its value must be a JSON obj",
        ),
        (
            {"data": {"text": "a"}, "annotations": [{"result": [{"from_name": "marks", "value": {"end": 1}}]}]},
            "a mark must have its start as a whole number (null given)",
        ),
        ({"data": {}, "annotations": [{"result": []}]}, "must have answers to a survey of nextword"),
    ],
)
def test_an_annotation_that_is_none_is_left_out_alone(
    pairs: MadeSurvey, tmp_path: Path, broken: object, why: str
) -> None:
    choice = [{"from_name": pairs.survey.questions[0].name, "value": {"choices": ["a"]}}]
    path = label_studio(pairs, tmp_path, lambda data: choice)
    complete = len(read_answers([path], pairs.survey)[0])
    path.write_text(json.dumps([broken, *json.loads(path.read_text(encoding="utf-8"))]), encoding="utf-8")
    handed, left_out = read_answers([path], pairs.survey)
    assert len(handed) == complete > 0
    assert len(left_out) == 1
    assert left_out[0].startswith("export.json, task 1, annotation 1: left out, cannot be read: ")
    assert why in left_out[0]


def test_a_task_without_annotations_is_no_answer(pairs: MadeSurvey, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text('[{"data": null}, {"data": {}, "annotations": null}]', encoding="utf-8")
    assert read_answers([path], pairs.survey) == ([], [])


WORDS = {"id": "1", "answers": {"overall": "a"}}
"""A unit without marks."""


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("", 'item 2: left out, cannot be read: must have answers to an item ("" given)'),
        (None, "item 2: left out, cannot be read: must have answers to an item (null given)"),
        ([], "item 2: left out, cannot be read: must have answers to an item ([] given)"),
        (7, "item 2: left out, cannot be read: must have answers to an item (7 given)"),
        ({"units": []}, "item 2: left out, cannot be read: must have answers to an item (id is wrong)"),
        ({"units": {}}, "item 2 (x): left out, cannot be read: must have answers to an item (units is wrong)"),
        ({"units": [3]}, "item 2 (x): left out, cannot be read: must have answers to an item (units.0 is wrong)"),
        (
            {"units": [WORDS | {"answers": []}]},
            "item 2 (x): left out, cannot be read: must have answers to an item (units.0.answers is wrong)",
        ),
        (
            {"units": [WORDS | {"answers": {"overall": 3}}]},
            "item 2 (x): left out, cannot be read: must have answers to an item (units.0.answers.overall is wrong)",
        ),
        (
            {"units": [WORDS | {"marks": [[4]]}]},
            "item 2 (x): left out, cannot be read: must have answers to an item (units.0.marks.0 is wrong)",
        ),
        (
            {"units": [WORDS | {"marks": [[None, 4]]}]},
            "item 2 (x): left out, cannot be read: must have answers to an item (units.0.marks.0.0 is wrong)",
        ),
        (
            {"units": [WORDS], "seconds": -1},
            "item 2 (x): left out, cannot be read: must have answers to an item (seconds is wrong)",
        ),
    ],
)
def test_an_item_of_a_page_that_is_none_is_left_out_alone(
    pairs: MadeSurvey, tmp_path: Path, broken: Any, why: str
) -> None:
    path = tmp_path / "answers-1-ann.json"
    answered(pairs, 0, "ann", prefer("a")).save(path)
    said = json.loads(path.read_text(encoding="utf-8"))
    whole = survey_results(tmp_path / "survey", [path], resamples=50)
    if isinstance(broken, dict) and "(x)" in why:
        broken = {"id": "x", "digest": "0"} | broken
    path.write_text(json.dumps(said | {"items": [said["items"][0], broken, *said["items"][1:]]}), encoding="utf-8-sig")
    results = survey_results(tmp_path / "survey", [path], resamples=50)
    assert results.left_out == [f"answers-1-ann.json, ann, {why}"]
    assert (results.judged.systems, results.duels, results.judges) == (whole.judged.systems, whole.duels, whole.judges)


def test_without_its_bad_item_a_judge_has_one_answer_less(pairs: MadeSurvey, tmp_path: Path) -> None:
    path = tmp_path / "answers-1-ann.json"
    answered(pairs, 0, "ann", prefer("a")).save(path)
    said = json.loads(path.read_text(encoding="utf-8"))
    bad = next(item for item in said["items"] if item["id"] in pairs.key.items)
    before = survey_results(tmp_path / "survey", [path], resamples=50).judges[0].items
    bad["units"] = 7
    path.write_text(json.dumps(said), encoding="utf-8")
    results = survey_results(tmp_path / "survey", [path], resamples=50)
    assert [(one.name, one.items) for one in results.judges] == [("ann", before - 1)]
    place = f"item {said['items'].index(bad) + 1} ({bad['id']})"
    assert results.left_out == [
        f"answers-1-ann.json, ann, {place}: left out, cannot be read: must have answers to an item (units is wrong)",
        f"answers-1-ann.json (ann): item {bad['id']} not answered; the rest counts",
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"judge": ""}, "must have answers to a survey of nextword (judge is wrong)"),
        ({"items": 7}, "must have answers to a survey of nextword (items is wrong)"),
        ({"schema_version": 99, "items": [7]}, "written by a newer nextword"),
    ],
)
def test_a_page_that_is_none_is_named_once(pairs: MadeSurvey, tmp_path: Path, change: Any, why: str) -> None:
    path = tmp_path / "ann.json"
    said = answered(pairs, 0, "ann", prefer("a")).model_dump(mode="json")
    path.write_text(json.dumps(said | change), encoding="utf-8")
    handed, left_out = read_answers([path], pairs.survey)
    assert handed == []
    assert len(left_out) == 1
    assert why in left_out[0]
