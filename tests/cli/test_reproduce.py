from __future__ import annotations

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nextword.cli import app
from nextword.experiments.reproduction.planning import measured_steps
from nextword.experiments.tasks import registry
from nextword.results.records.reproduced_table import ReproducedTable
from tests.helpers import made_up_paper
from tests.helpers.counting_task import Counting


@pytest.fixture(scope="module", autouse=True)
def counting_paper(tmp_path_factory):
    """A made-up paper in place of the real ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._entries, "counting", Counting)
        made_up_paper.install(patch, tmp_path_factory.mktemp("paper"))
        yield
    made_up_paper.forget()


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, words)], env={"COLUMNS": "200"})


def test_without_a_name_papers_and_tables_are_listed_with_what_they_take():
    done = run()
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert "counting/table-1 How likely the next number is trained" in lines
    assert "counting/table-2 Hyper-parameters no training" in lines
    assert "counting/table-3 What people said people's judgements" in lines
    done = run("--scale", "pretrained")
    assert "counting/table-1 How likely the next number is not done" in [
        " ".join(line.split()) for line in done.output.splitlines()
    ]


def test_a_table_is_filled_printed_and_written(tmp_path):
    done = run("counting/table-1", "seeds=[0]", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "experiment 1 of 1: counting" in done.output
    for text in ("How likely the next number is", "Softmax", "one seed so far", "index.html"):
        assert text in " ".join(done.output.split())
    record = ReproducedTable.load(tmp_path / "out" / "tables" / "small" / "counting" / "table-1.json")
    assert list(record.rows[0].cells[0].by_seed) == ["0"]
    page = tmp_path / "out" / "tables" / "small" / "counting" / "table-1.html"
    written = page.read_text()
    page.unlink()
    again = CliRunner().invoke(app, ["report", str(page.with_suffix(".json"))])
    assert again.exit_code == 0, again.output
    assert page.read_text() == written


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["countin"], "must be a known one ('countin' given). Did you mean 'counting'"),
        (["counting/table-7"], "must be a table of counting ('table-7' given)"),
        (["counting", "--all"], "--all: must be given without names of tables (counting given)"),
        (["counting/table-1", "--data", "nowhere"], "('nowhere' does not exist)"),
        (["counting/table-1", "training.stepz=3"], "training.stepz"),
        (["counting/table-1", "--gpu", "L4"], "--gpu: must be given together with --dry-run"),
        (["counting/table-1", "--dry-run", "--gpu", "L44"], "--gpu: must be a known GPU ('L44' given)"),
        (["counting/table-1", "--dry-run", "training.stepz=3"], "training.stepz"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, words, message):
    done = run(*words, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not (tmp_path / "out" / "tables").exists()


@pytest.mark.slow
def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path):
    done = run("--all", "--dry-run", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    for part in (
        "counting 2 its own, 2 steps",
        "2 × 2",
        "a few steps of each kind of training",
        "counting/table-3",
        "GB free",
    ):
        assert part in text
    assert not list(tmp_path.iterdir())


def test_in_a_narrow_window_names_are_broken_and_numbers_are_whole(tmp_path):
    words = ["reproduce", "counting/table-1", "--dry-run", "--gpu", "L4:0.5", "--out", str(tmp_path / "out")]
    wide, narrow = (CliRunner().invoke(app, words, env={"COLUMNS": width}).output for width in ("200", "66"))
    (row,) = [line for line in wide.splitlines() if line.startswith("counting") and " GB" in line]
    _, *numbers = row.split("  ")
    assert "…" not in narrow
    for number in filter(None, (one.strip() for one in numbers)):
        assert number in narrow


def test_a_dry_run_that_finds_something_wrong_ends_with_code_2(tmp_path):
    done = run("counting/table-1", "--dry-run", "methods=['softmax','cashe']", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "error: counting: " in done.output
    assert "Did you mean 'cache'" in " ".join(done.output.split())


def test_hours_may_be_those_of_a_gpu(tmp_path):
    done = run("counting/table-1", "--dry-run", "--gpu", "L4:0.5", "--out", tmp_path / "out")
    assert "L4 at 50% of its published peak, as given" in " ".join(done.output.split())


def test_a_comparison_is_planned_in_the_same_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["compare", "--task", "counting", "--head", "softmax", "--head", "cache", "--dry-run"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    for part in ("timing the start", "1 × 3", "softmax", "cache", "a step", "a few steps of each kind of training"):
        assert part in done.output
    assert not list(tmp_path.iterdir())


def test_ctrl_c_in_a_dry_run_prints_the_rest_and_ends_with_its_code(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(measured_steps, "_cost", interrupted)
    done = run("counting/table-1", "--dry-run", "--out", tmp_path / "out")
    assert done.exit_code == 130
    assert "not timed, because of an interruption" in done.output
    assert "1 experiments: 0 s and 1 of unknown length" in done.output
