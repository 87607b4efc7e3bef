from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from nextword.results.records import (
    Duel,
    Environment,
    EvaluationResults,
    Goal,
    Measure,
    MetricValue,
    PairRecord,
    Place,
    SampleFile,
    SystemRecord,
    Wins,
)
from nextword.results.report import evaluation_tables, write_report
from nextword.results.report.evaluation_page import render_evaluation
from nextword.results.report.evaluation_table import measure_table, note_on_tests, notes, paired_rows
from nextword.results.report.table import best_of

MEASURES = {
    "kl": Measure(title="KL", group="Closeness", unit="nats", goal="lower", decimals=3, meaning="KL: a divergence."),
    "rep": Measure(title="Rep", group="Repetition", unit="fraction of texts", goal="human", decimals=1, meaning="R."),
    "zipf": Measure(title="Zipf", group="Repetition", unit="exponent", goal=None, meaning="Z."),
}


def value(number: float, unit: str, low: float | None = None, high: float | None = None) -> MetricValue:
    return MetricValue(value=number, unit=unit, n=50, low=low, high=high)


def system(name: str, kl: float, rep: float, seeds: int = 1) -> SystemRecord:
    values = {"kl": value(kl, "nats"), "rep": value(rep, "fraction of texts", rep / 2, min(1.0, rep * 2))}
    files = [
        SampleFile(
            file=f"{name}-{seed}.jsonl", sha256="0" * 64, samples=50, values=values, undefined={"zipf": "too few"}
        )
        for seed in range(seeds)
    ]
    return SystemRecord(name=name, files=files, values=values)


@pytest.fixture
def evaluation() -> EvaluationResults:
    people = {"kl": value(0.0, "nats"), "rep": value(0.2, "fraction of texts"), "zipf": value(1.1, "exponent")}
    test = PairRecord(
        measure="rep", first="[mle]", second="<b>f2</b>", difference=0.15, low=0.1, high=0.2,
        p_bootstrap=0.001, p_permutation=0.0004, p_holm=0.0008,
    )  # fmt: skip
    return EvaluationResults(
        command="nextword evaluate a.jsonl",
        unit="words",
        measures=MEASURES,
        systems=[system("[mle]", 1.5, 0.4), system("<b>f2</b>", 0.5, 0.25)],
        human=SampleFile(file="a.jsonl", sha256="0" * 64, samples=50, values=people),
        left_out={"mauve": "asks a model"},
        tests=[test],
        untested=None,
        wins=Wins(
            measures=["kl", "rep"],
            duels=[Duel(first="[mle]", second="<b>f2</b>", won=0, lost=2, tied=0)],
            ranking=[Place(rank=1, name="<b>f2</b>", wins=1, losses=0), Place(rank=2, name="[mle]", wins=0, losses=1)],
        ),
        settings={"metrics": [{"metric": "rep"}]},
        environment=Environment.collect(),
    )


def shown(evaluation: EvaluationResults, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    for table in evaluation_tables(evaluation):
        console.print(table)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_terminal_has_every_value_and_marks_the_best(evaluation: EvaluationResults) -> None:
    text = shown(evaluation)
    assert re.search(r"KL +\N{DOWNWARDS ARROW} +1\.500 +0\.500\* +0\.000 +nats", text)
    assert re.search(r"Rep +\N{RIGHTWARDS ARROW} +40\.0 +25\.0\* +20\.0 +% of texts", text)
    assert re.search(r"Zipf +\N{EN DASH} +\N{EN DASH} +1\.1 +exponent", text)
    assert "mauve: not measured, asks a model" in text
    assert "[mle]: no zipf: too few" in text
    assert "1 of 1 paired differences are significant" in text


def test_notes_on_values_are_shown_once_for_all_measures_of_a_file(evaluation: EvaluationResults) -> None:
    noted = {
        key: one.model_copy(update={"note": "empty texts, which count as wrong: 3 of 50"})
        for key, one in evaluation.systems[0].files[0].values.items()
    }
    file = evaluation.systems[0].files[0].model_copy(update={"values": noted})
    first = evaluation.systems[0].model_copy(update={"files": [file], "values": noted})
    changed = evaluation.model_copy(update={"systems": [first, evaluation.systems[1]]})
    line = "[mle] ([mle]-0.jsonl): KL; Rep: empty texts, which count as wrong: 3 of 50"
    assert notes(changed) == [line]
    assert shown(changed).count(line) == 1
    assert render_evaluation(changed).count(line) == 1
    assert notes(evaluation) == []


def test_terminal_fits_80_columns(evaluation: EvaluationResults) -> None:
    assert max(len(line.rstrip()) for line in shown(evaluation, 80).splitlines()) <= 80


@pytest.mark.parametrize(
    ("goal", "human", "expected"),
    [
        ("higher", None, {"b"}),
        ("lower", None, {"a"}),
        ("human", 2.2, {"b"}),
        ("human", None, set()),
        (None, 1.0, set()),
    ],
)
def test_best(goal: Goal | None, human: float | None, expected: set[str]) -> None:
    assert best_of(goal, {"a": 1.0, "b": 3.0}, human) == expected
    assert best_of(goal, {"a": 1.0, "b": 1.0}, human) == set()
    assert best_of(goal, {"a": 1.0}, human) == set()


def test_page_says_of_votes_and_tests_what_the_terminal_says(evaluation: EvaluationResults) -> None:
    page = render_evaluation(evaluation)
    assert "<td>2 of 2</td></tr>" in page
    assert "<td>0 of 2</td></tr>" in page
    assert "even if the difference is small and may be due to chance." in page
    assert "a test says that the systems differ, not which is nearer" in page


def test_page_escapes_names_and_shows_everything(evaluation: EvaluationResults, tmp_path: Path) -> None:
    write_report(evaluation, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>f2" not in page
    assert "&lt;b&gt;f2&lt;/b&gt;" in page
    for part in (
        "KL: a divergence.",
        "0.500",
        "+15.0",
        "0.0008",
        "asks a model",
        "too few",
        "nextword evaluate a.jsonl",
    ):
        assert part in page
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)


def test_seeds_are_shown_one_by_one(evaluation: EvaluationResults) -> None:
    seeds = evaluation.model_copy(update={"systems": [system("a", 1.0, 0.1, seeds=3)]})
    (row, *_) = measure_table(seeds).rows
    assert row.cells[0].seeds == ("1.000", "1.000", "1.000")


def test_note_says_how_many_tests_there_are(evaluation: EvaluationResults) -> None:
    many = evaluation.model_copy(update={"tests": evaluation.tests * 40})
    assert note_on_tests(many).startswith("40 tests: about 2 would fall below 0.05 by chance")
    (test,) = paired_rows(evaluation)
    assert (test.difference, test.interval, test.significant) == ("+15.0", "+10.0 to +20.0", True)


def test_non_finite_values_and_twins_are_refused(evaluation: EvaluationResults) -> None:
    content = evaluation.model_dump()
    content["systems"][0]["files"][0]["values"]["kl"]["value"] = float("nan")
    with pytest.raises(ValueError, match=r"\[mle\], \[mle\]-0.jsonl: kl.value is nan"):
        EvaluationResults.model_validate(content)
    twins = evaluation.model_dump()
    twins["systems"][1]["name"] = "[mle]"
    with pytest.raises(ValueError, match="systems: must have different names"):
        EvaluationResults.model_validate(twins)


def test_terminal_lists_the_differences_that_hold(evaluation: EvaluationResults) -> None:
    """Lower is better for KL; of two systems that differ in repetition nobody says which is nearer to people."""
    test = evaluation.tests[0]
    better = test.model_copy(update={"measure": "kl", "difference": 1.0, "low": 0.5, "high": 1.5})
    chance = better.model_copy(update={"p_holm": 0.2})
    tested = evaluation.model_copy(update={"tests": [test, better, chance]})
    assert [one.better for one in paired_rows(tested)] == ["", "<b>f2</b>", ""]
    console = Console(file=io.StringIO(), width=80)
    for table in evaluation_tables(tested):
        console.print(table)
    shown = console.file.getvalue()
    listed = shown.partition("Significant differences")[2].splitlines()
    assert [line.split()[0] for line in listed if "[mle] " in line] == ["KL", "Rep"]  # those with a better system first
    assert next(line for line in listed if line.startswith(" KL")).rstrip().endswith("<b>f2</b>")
    assert "2 of 3 paired differences are significant" in shown


def test_terminal_says_by_how_many_votes(evaluation: EvaluationResults) -> None:
    ranking = shown(evaluation).partition("Ranking by wins")[2].splitlines()
    votes = [line.split()[-3:] for line in ranking if "f2" in line or "mle" in line]
    assert votes[:2] == [["2", "of", "2"], ["0", "of", "2"]]


def test_no_star_no_legend(evaluation: EvaluationResults) -> None:
    even = evaluation.model_copy(update={"systems": [system("a", 1.0, 0.4), system("b", 1.0, 0.4)], "wins": None})
    console = Console(file=io.StringIO(), width=80)
    for table in evaluation_tables(even.model_copy(update={"tests": []})):
        console.print(table)
    assert "* best" not in console.file.getvalue()
