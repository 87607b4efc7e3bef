"""The whole way, with a made-up paper whose experiment takes seconds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nextword.experiments.comparison import all_methods
from nextword.experiments.reproduction.data_sets import DataFolder
from nextword.experiments.reproduction.experiment_folder import Request
from nextword.experiments.reproduction.reproduce_tables import all_tables, reproduce, tables_in, tables_named
from nextword.results.records.reproduced_table import ReproducedTable

pytestmark = pytest.mark.usefixtures("counting_paper")


@pytest.fixture(autouse=True)
def quick_report(monkeypatch):
    monkeypatch.setattr(all_methods, "_report", lambda results, folder: folder.report.write_text("drawn"))


def request(out, *tables, **options):
    return Request(tables or ("counting/table-1",), "small", DataFolder(), Path(out), **options)


@pytest.fixture(scope="module")
def finished(counting_paper, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_methods, "_report", lambda results, folder: folder.report.write_text("drawn"))
        done = reproduce(request(folder, *all_tables()))
    return folder, done


def test_every_cell_has_the_printed_number_and_ours_or_a_reason(finished):
    folder, done = finished
    table = done.tables[0]
    results = json.loads((folder / "experiments" / "small" / "counting" / "results.json").read_text())
    for title, method in (("Softmax", "softmax"), ("Cache", "cache")):
        row = next(row for row in table.rows if row.title == title)
        losses = {
            str(run["seed"]): run["evaluation"]["metrics"]["nll"]["value"]
            for run in results["runs"]
            if run["method"] == method
        }
        assert row.cells[0].by_seed == losses
        assert row.cells[0].value == pytest.approx(sum(losses.values()) / 2)
        assert row.cells[0].low < row.cells[0].value < row.cells[0].high
        assert row.cells[2].value == 0.01
        assert row.cells[2].printed is None
    assert [cell.printed for cell in table.rows[1].cells] == [1.5, 100.5, None]
    assert [cell.spread for cell in table.rows[1].cells] == [0.1, None, None]
    assert {cell.missing for cell in table.rows[2].cells[:2]} == {"not at scale small"}


def test_claims_are_judged_or_say_why_not(finished):
    (_, done) = finished
    first, second = done.tables[0].claims
    (one,) = first.comparisons
    cache, softmax = (next(row for row in done.tables[0].rows if row.title == name) for name in ("Cache", "Softmax"))
    differences = [cache.cells[0].by_seed[seed] - softmax.cells[0].by_seed[seed] for seed in ("0", "1")]
    assert one.difference == pytest.approx(sum(differences) / 2)
    assert (one.printed, one.seeds, first.headline) == (-1.0, 2, True)
    assert second.outcome == "not testable"
    (third,) = done.tables[2].claims
    assert (third.outcome, third.reason) == ("not testable", "it wants people")


def test_settings_and_what_people_said_need_no_training(counting_paper, tmp_path):
    done = reproduce(request(tmp_path / "out", "counting/table-2", "counting/table-3"))
    assert not (tmp_path / "out" / "experiments").exists()
    assert [row.cells[0].value for row in done.tables[0].rows] == [2, 16]
    assert done.tables[1].rows[0].cells[0].missing == "none of our experiments measures this number"


def test_an_experiment_says_what_it_cost_and_where_its_page_is(finished):
    folder, done = finished
    (ran,) = done.tables[0].experiments
    assert ran.minutes > 0
    assert ran.start_minutes > 0
    assert (ran.seeds, ran.task) == ([0, 1], "counting")
    assert (folder / ran.report).exists()


def test_records_and_pages_lie_in_the_folder_and_are_read_again(finished):
    folder, done = finished
    for table in done.tables:
        place = folder / "tables" / "small" / table.name
        assert ReproducedTable.load(place.with_suffix(".json")) == table
        assert "How likely" in place.with_suffix(".html").read_text() or table.name != "counting/table-1"
    assert tables_in(folder) == done.tables
    assert "How likely the next number is" in (folder / "index.html").read_text()


def test_the_same_call_again_trains_nothing(finished, tmp_path):
    folder = Path(shutil.copytree(finished[0], tmp_path / "copy"))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("record.json")}
    done = reproduce(request(folder))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("record.json")} == before
    assert done.tables[0].rows == finished[1].tables[0].rows


@pytest.mark.slow
def test_what_was_interrupted_goes_on_and_times_add_up(counting_paper, tmp_path):
    out = tmp_path / "out"
    reproduce(request(out, changes=("seeds=[0]",)))
    before = json.loads((out / "experiments" / "small" / "counting.times.json").read_text())
    done = reproduce(request(out))
    after = json.loads((out / "experiments" / "small" / "counting.times.json").read_text())
    assert set(done.tables[0].rows[0].cells[0].by_seed) == {"0", "1"}
    assert after["runs"] > before["runs"]
    assert after["start"] == before["start"]


@pytest.mark.slow
def test_an_experiment_begins_from_the_start_of_another(counting_paper, tmp_path, monkeypatch):
    from nextword.experiments.reproduction.experiment_folder import ExperimentFolders
    from nextword.runtime.progress import Watcher

    folders = ExperimentFolders(Request([], "small", DataFolder(), tmp_path))
    again = folders.run("again", Watcher())
    start = json.loads((folders.folder("counting") / "start" / "start.json").read_text())
    assert again.results.start["sha256"] == start["sha256"]
    assert again.record.start == "that of counting"
    assert not (folders.folder("counting") / "runs").exists()
    counting = folders.run("counting", Watcher())
    assert counting.results.start["sha256"] == start["sha256"]


@pytest.mark.slow
def test_failed_runs_are_handed_back_and_their_cells_say_why(counting_paper, tmp_path):
    done = reproduce(request(tmp_path / "out", changes=("training.learning_rate=1e30", "training.max_grad_norm=0.0")))
    if not done.failures:
        pytest.skip("nothing diverged")
    assert "the run failed" in done.tables[0].rows[0].cells[0].missing


def test_names_of_tables_and_papers():
    assert tables_named(["counting"]) == ["counting/table-1", "counting/table-2", "counting/table-3"]
    assert tables_named(["counting/table-2", "counting"])[0] == "counting/table-2"
    with pytest.raises(ValueError, match="'counting'"):
        tables_named(["countin/table-1"])
    with pytest.raises(ValueError, match=r"must be a table of counting \('table-9' given"):
        tables_named(["counting/table-9"])
