"""The page of a survey in a real browser: answered by keyboard and by mouse, closed half-way, handed back, counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nextword.evaluation.survey import MadeSurvey, survey_results
from nextword.evaluation.survey.outputs import write_survey
from nextword.results.records.survey_files import ItemAnswers, JudgeAnswers
from nextword.results.report.survey_page import judge_page, mturk_item, mturk_layout
from tests.helpers.answered_surveys import MARKUP, made
from tests.helpers.browser import HEIGHTS, NARROW, WIDE, Opening

pytestmark = pytest.mark.browser

KINDS = ("pairwise", "faithfulness", "rating")


@pytest.fixture(params=KINDS)
def survey(request: pytest.FixtureRequest, tmp_path: Path) -> MadeSurvey:
    return made(
        tmp_path, request.param, judges=2, checks=1, **({"near": 20} if request.param == "faithfulness" else {})
    )


def begin(page: Any, judge: str = "Anna", form: str | None = "1") -> None:
    if form is not None:
        page.select_option("#form", form)
    page.fill("#judge", judge)
    page.check("#consent")
    page.click("button[type=submit]")


def handed_back(page: Any) -> dict[str, Any]:
    with page.expect_download() as download:
        page.click("#save")
    content: dict[str, Any] = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert json.loads(page.locator("#answers").input_value()) == content
    JudgeAnswers.model_validate_json(json.dumps(content))
    return content


def answer_as_wanted(page: Any, survey: MadeSurvey) -> None:
    """By mouse: checks as they ask, everything else with the last choice; the first word is marked where one can be."""
    item = page.locator(".unit input").first.get_attribute("name").split("-")[0]
    for box in page.locator(".unit fieldset").all():
        name = box.get_attribute("data-question").split("-")[2]
        wanted = survey.key.checks.get(item, {}).get(name)
        box.locator(f"input[value='{wanted}']" if wanted else "input").last.click()
    for marking in page.locator(".marking").all():
        marking.locator("button").first.click()


def test_every_question_by_mouse_is_counted(survey: MadeSurvey, open_page: Opening, tmp_path: Path) -> None:
    view = open_page(judge_page(survey.survey))
    begin(view.page)
    for _ in survey.survey.forms[0].pages:
        answer_as_wanted(view.page, survey)
        view.page.click("#next")
    content = handed_back(view.page)
    file = tmp_path / "handed.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    write_survey(survey, tmp_path / "survey")
    results = survey_results(tmp_path / "survey", [file], resamples=50)
    assert [(one.name, one.items, one.checks, one.failed) for one in results.judges] == [("Anna", 3, 1, 0)]
    assert results.left_out == []
    assert all(value.value > 0 for value in results.marked.values())


def test_every_question_by_keyboard(survey: MadeSurvey, open_page: Opening) -> None:
    view = open_page(judge_page(survey.survey))
    page = view.page
    for key in ("Tab", "1", "Tab", "A", "n", "n", "a", "Tab", "Space", "Tab", "Enter"):
        page.keyboard.press(key)
    for at, _ in enumerate(survey.survey.forms[0].pages, 1):
        assert view.text("#progress").startswith(f"{at} of")
        for _ in page.locator(".unit fieldset").all():
            page.keyboard.press("2")
        page.keyboard.press("Enter")
    content = handed_back(page)
    assert content["judge"] == "Anna"
    questions = {one.name: one.choices[1].value for one in survey.survey.questions}
    assert all(unit["answers"] == questions for item in content["items"] for unit in item["units"])
    assert len(content["items"]) == len(survey.survey.forms[0].pages)


@pytest.fixture
def kept(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """A browser that is closed and opened again keeps what pages keep."""
    context = chromium.new_context(viewport={"width": WIDE, "height": HEIGHTS[WIDE]})
    yield context
    context.close()


def test_closed_and_opened_again_it_goes_on(survey: MadeSurvey, kept: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(judge_page(survey.survey), encoding="utf-8")
    address = f"{file.as_uri()}?form=2&PROLIFIC_PID=p42"
    first = kept.new_page()
    first.goto(address)
    assert first.locator("#judge").input_value() == "p42"
    first.check("#consent")
    first.click("button[type=submit]")
    answer_as_wanted(first, survey)
    first.click("#next")
    first.locator(".unit input").first.click()
    with first.expect_event("close"):
        first.close(run_before_unload=True)  # as a person closes it: the page may still tell what it keeps
    again = kept.new_page()
    again.goto(address)
    assert again.locator("button[type=submit]").inner_text() == "Continue"
    again.click("button[type=submit]")
    assert again.locator("#progress").inner_text().startswith("2 of")
    assert again.locator(".unit input").first.is_checked()
    again.click("#back")
    assert again.locator("fieldset input:checked").count() == again.locator("fieldset").count()


def test_nothing_is_left_unanswered(open_page: Opening, tmp_path: Path) -> None:
    view = open_page(judge_page(made(tmp_path, judges=1).survey))
    view.page.click("button[type=submit]")
    assert "name" in view.text(".complaint")
    view.page.fill("#judge", "x")
    view.page.click("button[type=submit]")
    assert "agree" in view.text(".complaint")
    view.page.check("#consent")
    view.page.click("button[type=submit]")
    view.page.click("#next")
    assert view.text(".complaint") == "3 questions have no answer yet."
    assert view.page.locator("fieldset.missing").count() == 3
    assert view.text("#progress").startswith("1 of")


def test_markup_is_text(survey: MadeSurvey, open_page: Opening) -> None:
    view = open_page(judge_page(survey.survey))
    begin(view.page)
    assert any(MARKUP in text for text in view.texts(".line"))
    assert "null" not in view.text("main")
    assert view.page.locator(".item b, .item script").count() == 0


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_fits_every_screen(survey: MadeSurvey, open_page: Opening, width: int, dark: bool) -> None:
    view = open_page(judge_page(survey.survey), width, dark)
    assert not view.scrolls_sideways
    begin(view.page)
    assert not view.scrolls_sideways


def test_hallucinated_words_are_marked_in_characters(open_page: Opening, tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", judges=1, checks=0)
    view = open_page(judge_page(survey.survey))
    begin(view.page)
    unit = view.page.locator(".unit").first
    assert unit.locator(".marking").count() == 0
    unit.locator("[data-question$=faithfulness] input[value=no]").click()
    words = unit.locator(".marking button")
    words.nth(0).click()
    words.nth(1).focus()
    view.page.keyboard.press("Space")
    last = words.count() - 1
    words.nth(last).click()
    kept = json.loads(view.page.evaluate("Object.values(localStorage)[0]"))
    (item,) = kept["items"].values()
    marks = item["units"][unit.get_attribute("data-unit")]["marks"]
    text = "\n".join(unit.locator(".line").all_inner_texts())
    cut = [text[start:end] for start, end in marks]
    assert cut == [" ".join(text.split()[:2]), text.split()[-1]]
    unit.locator("[data-question$=faithfulness] input[value=yes]").click()
    assert unit.locator(".marking").count() == 0


def test_near_sentences_are_shown_beside_the_one_that_is_judged(open_page: Opening, tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", judges=1, checks=0, near=3)
    view = open_page(judge_page(survey.survey))
    begin(view.page)
    view.page.locator(".unit").first.hover()
    assert view.page.locator(".passages .near").count() == 3


def test_the_layout_of_mechanical_turk_fills_its_field(survey: MadeSurvey, open_page: Opening) -> None:
    """As the platform shows it: the cell in place of the mark, without the platform's own script."""
    item = survey.survey.items[0]
    layout = mturk_layout(survey.survey).replace("${item}", mturk_item(item))
    view = open_page(layout.replace('<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>', ""))
    for box in view.page.locator(".unit fieldset").all():
        box.locator("input").first.click()
    said = json.loads(view.page.locator("#answers").input_value())
    assert said["survey"] == survey.survey.id
    answers = ItemAnswers.model_validate_json(json.dumps(said["item"]))
    assert (answers.id, answers.digest) == (item.id, item.digest)
    first = {one.name: one.choices[0].value for one in survey.survey.questions}
    assert [unit.answers for unit in answers.units] == [first] * len(item.units)
