from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from nextword.evaluation.survey import make_survey
from nextword.evaluation.survey.kinds import registry
from nextword.evaluation.survey.outputs import label_studio_config, label_studio_tasks, write_survey
from tests.helpers.answered_surveys import MARKUP, made, samples_file

RECIPE = {"near": 20}


@pytest.mark.parametrize("asks", registry.names())
def test_nothing_for_judges_says_who_wrote_what(asks: str, tmp_path: Path) -> None:
    survey = made(tmp_path, asks, consent="Consent & all", **(RECIPE if asks == "faithfulness" else {}))
    folder = tmp_path / "survey"
    write_survey(survey, folder)
    assert {path.name for path in folder.iterdir()} == {"survey.json", "key.json", "for-judges"}
    given = [path for path in (folder / "for-judges").rglob("*") if path.is_file()]
    assert len(given) == 6
    for path in given:
        text = path.read_text(encoding="utf-8")
        assert "jsonl" not in text
        assert '"checks"' not in text
        assert '"writers"' not in text


def test_label_studio_asks_every_question_of_every_unit(tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", near=20, consent='Say "yes" & <go>')
    write_survey(survey, tmp_path / "survey")
    folder = tmp_path / "survey" / "for-judges" / "label-studio"
    view = ElementTree.fromstring((folder / "config.xml").read_text(encoding="utf-8"))
    asked = {one.get("name"): [choice.get("value") for choice in one] for one in view.iter("Choices")}
    assert asked == {one.name: [choice.label for choice in one.choices] for one in survey.survey.questions}
    assert [one.get("toName") for one in view.iter("Labels")] == ["text"]
    assert 'Say "yes" & <go>' in [one.get("value") for one in view.iter("Header")][1]
    shown = {one.get("value") for one in view.iter("Text")}
    tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    assert shown == {"$context", "$near", "$text"}
    assert len(tasks) == sum(len(item.units) for item in survey.survey.items)
    assert any(MARKUP.split()[0] in task["data"]["text"] for task in tasks)


def test_label_studio_shows_of_a_document_what_is_nearest_to_each_sentence(tmp_path: Path) -> None:
    """With a source of two sentences and room for both, both; the texts of other kinds have no such thing."""
    source = "The cat sat here. The dog ran away."
    files = {name: samples_file(tmp_path / f"{name}.jsonl", name, source=source) for name in "ab"}
    survey = make_survey("faithfulness", files, {"items": 6, "items_per_form": 3, "near": 20}).survey
    near = {task["data"]["near"] for task in json.loads(label_studio_tasks(survey))}
    assert near == {"The cat sat here.\nThe dog ran away."}
    (item, unit) = (survey.items[0], survey.items[0].units[0])
    one = item.model_copy(update={"units": [unit.model_copy(update={"near": [1]})]})
    (task,) = json.loads(label_studio_tasks(survey.model_copy(update={"items": [one], "digests": {one.id: "d"}})))
    assert task["data"]["near"] == "The dog ran away."
    pairwise = made(tmp_path).survey
    assert "near" not in json.loads(label_studio_tasks(pairwise))[0]["data"]
    assert "$near" not in label_studio_config(pairwise)


def test_a_link_for_each_form(tmp_path: Path) -> None:
    survey = made(tmp_path, page_url="https://pages.example.org/s?x=1")
    write_survey(survey, tmp_path / "survey")
    text = (tmp_path / "survey" / "for-judges" / "prolific" / "links.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["form"] for row in rows] == [form.id for form in survey.survey.forms]
    assert rows[1]["link"].startswith("https://pages.example.org/s?x=1&form=2&PROLIFIC_PID={{%PROLIFIC_PID%}}&")
    assert {row["places"] for row in rows} == {"1"}


def test_another_survey_is_not_overwritten(tmp_path: Path) -> None:
    write_survey(made(tmp_path), tmp_path / "survey")
    write_survey(made(tmp_path), tmp_path / "survey")
    with pytest.raises(ValueError, match="belongs to another survey"):
        write_survey(made(tmp_path, seed=9), tmp_path / "survey")
