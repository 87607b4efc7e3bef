from __future__ import annotations

import json
from pathlib import Path

import pytest

from nextword.evaluation.survey import survey_results
from nextword.evaluation.survey.outputs import write_survey
from tests.helpers.answered_surveys import answered, made

KNOWN = [
    {"source": "The cat sat here. The dog ran.", "text": "The cat ran.", "answers": {"faithfulness": "no"}},
    {"source": "It rains.", "text": "It rains.", "answers": {"faithfulness": "yes", "coherence": "yes"}},
]


def known_file(folder: Path, lines: list[dict[str, object]]) -> str:
    path = folder / "known.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_known_items_stand_first_in_every_form_and_the_key_has_their_answers(tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", near=20, qualification=known_file(tmp_path, KNOWN), checks=1)
    items = {item.id: item for item in survey.survey.items}
    for form in survey.survey.forms:
        first = [items[page.item] for page in form.pages[:2]]
        assert [item.units[0].texts[0].lines for item in first] == [["The cat ran."], ["It rains."]]
        assert [survey.key.checks[item.id] for item in first] == [line["answers"] for line in KNOWN]
        assert first[0].passages[0].lines == ["The cat sat here.", "The dog ran."]
        assert sum(page.item in survey.key.checks for page in form.pages) == 3
    assert '"answers"' not in survey.survey.model_dump_json()


def test_a_judge_who_fails_the_qualification_does_not_count(tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", near=20, qualification=known_file(tmp_path, KNOWN), checks=0, judges=2)
    write_survey(survey, tmp_path / "survey")
    files = []
    for form, judge in enumerate(["right", "wrong"]):
        answers = answered(survey, form, judge, lambda *_: "yes")
        if judge == "wrong":
            items = [
                item.model_copy(update={"units": [unit.model_copy(update={"answers": {"faithfulness": "yes"}})]})
                if survey.key.checks.get(item.id) == KNOWN[0]["answers"]
                else item
                for item in answers.items
                for unit in item.units[:1]
            ]
            answers = answers.model_copy(update={"items": items})
        files.append(tmp_path / f"{judge}.json")
        answers.save(files[-1])
    results = survey_results(tmp_path / "survey", files, resamples=50)
    assert {one.name: (one.checks, one.failed, one.counted) for one in results.judges} == {
        "right": (2, 0, True),
        "wrong": (2, 1, False),
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"source": "s", "text": "t", "answers": {}}, "line 1: answers: must have a correct answer"),
        ({"source": "s", "text": "t", "answers": {"fluency": "yes"}}, "must be about coherence, faithfulness, inform"),
        ({"source": "s", "text": "t", "answers": {"coherence": "5"}}, "coherence: must be yes or no \\('5' given\\)"),
        ({"source": "s", "answers": {"coherence": "yes"}}, "text: missing"),
    ],
)
def test_a_wrong_line_is_named(line: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        made(tmp_path, "faithfulness", near=20, qualification=known_file(tmp_path, [line]))


def test_an_empty_file_and_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line for each item"):
        made(tmp_path, "faithfulness", near=20, qualification=known_file(tmp_path, []))
    with pytest.raises(ValueError, match="qualification: unknown key"):
        made(tmp_path, qualification=known_file(tmp_path, KNOWN))
