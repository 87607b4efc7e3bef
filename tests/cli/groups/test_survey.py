from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nextword.cli import app
from nextword.evaluation.survey import MadeSurvey
from nextword.results.records.survey_files import Survey, SurveyKey, SurveyResults
from tests.helpers.answered_surveys import every_form, prefer, samples_file, saved


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [f"{name}={samples_file(tmp_path / f'{name}.jsonl', name)}" for name in "ab"]


def test_from_samples_to_a_table(files: list[str], tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('title = "Which is better?"\nitems_per_form = 3\n[power]\nagreement = 0.5\n', encoding="utf-8")
    out = tmp_path / "survey"
    command = ["survey", "make", "pairwise", *files, "--items", "6", "--recipe", str(recipe), "--out", str(out)]
    made = CliRunner().invoke(app, [*command, "--set", "checks=1"])
    assert made.exit_code == 0, made.output
    assert "6 items, 6 forms, 2 checks" in made.stdout
    assert "6 items with 3 judges each can detect a difference of" in made.stdout
    survey, key = Survey.load(out / "survey.json"), SurveyKey.load(out / "key.json")
    assert survey.title == "Which is better?"
    answers = saved(every_form(MadeSurvey(survey, key, "", []), prefer("b")), tmp_path)
    read = CliRunner().invoke(app, ["survey", "results", str(out), *map(str, answers), "--resamples", "50"])
    assert read.exit_code == 0, read.output
    assert "a against b" in read.stdout
    assert json.loads((out / "results" / "results.json").read_text(encoding="utf-8"))["kind"] == "survey-results"
    drawn = CliRunner().invoke(app, ["report", str(out / "results"), "--out", str(tmp_path / "again.html")])
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == (out / "results" / "report.html").read_text(
        encoding="utf-8"
    )


def test_automatic_measures_are_held_against_people(tmp_path: Path) -> None:
    """From samples through evaluate and judges to a correlation, the reference being a system of its own."""
    texts = {"dull": "word word word word", "fair": "word {n} word word", "reference": "each {n} is new{n}"}
    points = {"dull": "1", "fair": "2", "reference": "5"}
    files = []
    for name in ("dull", "fair"):
        lines = [
            {"id": n, "prompt": f"Topic {n}", "text": texts[name].format(n=n),
             "references": [texts["reference"].format(n=n)]}
            for n in range(6)
        ]  # fmt: skip
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        files.append(f"{name}={path}")

    def run(*words: object) -> str:
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.output

    measured, out = tmp_path / "evaluation", tmp_path / "survey"
    run("evaluate", *files, "--metrics", "distinct:1", "--set", "resamples=100", "--out", measured)
    run("survey", "make", "rating", *files, "--items", 6, "--judges", 2, "--out", out)
    made = MadeSurvey(Survey.load(out / "survey.json"), SurveyKey.load(out / "key.json"), "", [])
    answers = saved(every_form(made, lambda judge, item, question, writers: points[writers["text"]]), tmp_path)
    command = ["survey", "results", out, *answers, "--resamples", 50, "--automatic"]
    assert "correlations with automatic measures: see the report" in run(*command, measured / "results.json")
    results = SurveyResults.load(out / "results" / "results.json")
    (one,) = [one for one in results.correlations if one.people == "fluency" and one.automatic == "Distinct-1"]
    assert (one.systems, one.spearman, one.kendall) == (3, pytest.approx(1), pytest.approx(1))
    # distinct words of a text over its words: 1, 2 and 4 of 4
    assert one.pearson == pytest.approx(np.corrcoef([1, 2, 5], [1, 2, 4])[0, 1])
    assert "Distinct-1" in (out / "results" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["survey", "make", "pairwise", "x=a.jsonl", "x=b.jsonl"], "must have one samples file (2 given)"),
        (["survey", "make", "pairwise", "a.jsonl", "b.jsonl"], "a.jsonl"),
        (["survey", "results", "nowhere", "a.json"], "does not exist"),
    ],
)
def test_faults_are_one_line(words: list[str], message: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", "")
