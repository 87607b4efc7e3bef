from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from nextword.evaluation.survey import survey_results
from nextword.evaluation.survey.outputs import write_survey
from nextword.results.records.survey_files import SurveyResults
from nextword.results.report import survey_tables
from nextword.results.report.survey_page import render_survey
from tests.helpers.answered_surveys import every_form, made, prefer, saved


@pytest.fixture
def results(tmp_path: Path) -> SurveyResults:
    survey = made(tmp_path)
    write_survey(survey, tmp_path / "survey")
    answers = every_form(survey, prefer("a"))
    evil = answers[0].model_copy(update={"judge": "<b>[red]x", "survey": "<i>other</i>"})
    return survey_results(tmp_path / "survey", saved([*answers, evil], tmp_path), resamples=50)


def test_the_page_says_what_people_said(results: SurveyResults) -> None:
    page = render_survey(results)
    assert "<td>100.0<small>100.0–100.0</small></td>" in page
    assert "Krippendorff" in page
    assert "it answers another survey (&lt;i&gt;other&lt;/i&gt;)" in page
    assert "<b>[red]" not in page
    assert "<script" not in page


def test_the_terminal_says_it_too(results: SurveyResults) -> None:
    console = Console(file=io.StringIO(), width=140)
    for table in survey_tables(results):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "a against b" in text
    assert "6 of 6 judges are valid" in text
    assert "<b>[red]x" in text


def test_no_word_is_cut_on_a_usual_terminal(tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", near=20)
    write_survey(survey, tmp_path / "survey")
    answers = every_form(survey, lambda judge, item, question, writers: "no" if writers["text"] == "b" else "yes")
    console = Console(file=io.StringIO(), width=80)
    for table in survey_tables(survey_results(tmp_path / "survey", saved(answers, tmp_path), resamples=50)):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert {"Informative", "permutation", "bootstrap", "Holm"} <= set(text.split())
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_the_record_is_read_back(results: SurveyResults, tmp_path: Path) -> None:
    results.save(tmp_path / "results.json")
    assert SurveyResults.load(tmp_path / "results.json") == results
