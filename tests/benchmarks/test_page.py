"""Rows are kept, the newest are shown, and targets are judged."""

from __future__ import annotations

from pathlib import Path

import audit_cost
import datastore
import decoding_speed
import drafting
import drafting_tables
import head_cost
import long_memory
import performance_page
import profile_step
import pytest
import serving_speed
import startup
import sweeps
import table_parts
import tables
import text_memory
import throughput
import training_step
from rows import allocator, append, newest, read

import nextword as nw


def test_rows_are_appended_and_other_columns_refused(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.csv"
    append(path, [{"model": "a", "ms": 1}])
    append(path, [{"model": "a", "ms": 2}, {"model": "b", "ms": 3}])
    assert newest(read(path), ["model"]) == [{"model": "a", "ms": "2"}, {"model": "b", "ms": "3"}]
    with pytest.raises(ValueError, match="write to another file"):
        append(path, [{"model": "a", "seconds": 1}])
    assert len(read(path)) == 3
    assert read(tmp_path / "none.csv") == []


def test_the_allocator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "GLIBC_TUNABLES", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    assert allocator() == "default"
    monkeypatch.setenv("LD_PRELOAD", "lib/libtcmalloc.so.4")
    monkeypatch.setenv("MALLOC_TOP_PAD_", "64")
    assert allocator() == "libtcmalloc MALLOC_TOP_PAD_=64"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0.994", "0.99 (≤ 1.00, met)"), ("1.000", "1.00 (≤ 1.00, met)"), ("1.004", "1.004 (≤ 1.00, **missed**)"),
     ("1.2", "1.20 (≤ 1.00, **missed**)")],
)  # fmt: skip
def test_targets_are_judged_by_the_number_that_was_measured(value: str, expected: str) -> None:
    assert tables.at_most(value, 1.0) == expected
    assert tables.at_most(value, None) == f"{float(value):.2f}"


def test_speeds_are_to_reach_their_target() -> None:
    assert tables.at_least("0.9", 0.9) == "0.90 (≥ 0.90, met)"
    assert tables.at_least("0.899", 0.9) == "0.899 (≥ 0.90, **missed**)"


def test_text_outside_the_markers_stays_and_unknown_markers_are_refused(tmp_path: Path) -> None:
    page = "before\n<!-- measured: summary -->\nold\n<!-- end -->\nafter\n"
    after = performance_page.rewritten(page, tmp_path)
    assert after.startswith("before\n<!-- measured: summary -->\n")
    assert after.endswith("<!-- end -->\nafter\n")
    assert "old" not in after
    assert performance_page.rewritten(after, tmp_path) == after
    with pytest.raises(ValueError, match="no such table"):
        performance_page.rewritten("<!-- measured: nothing -->\n<!-- end -->", tmp_path)


def test_every_table_and_every_file_of_rows_is_on_a_page() -> None:
    pages = performance_page.PAGES.values()
    assert {section.table for page in pages for section in page.sections} == set(performance_page.TABLES)
    shown = {name for page in pages for name in page.files} | set(table_parts._SETTING)
    assert shown == {path.stem for path in performance_page.DATA.glob("*.csv")}


def test_the_pages_are_those_of_the_rows() -> None:
    performance_page.main(["--check"])


def test_pages_have_no_targets_and_judged_ones_do() -> None:
    plain = performance_page.page_of("performance", performance_page.DATA)
    wanted = table_parts.targets(performance_page.TARGETS)
    assert "met)" not in plain
    assert "**missed**" not in plain
    assert ", met)" in performance_page.page_of("performance", performance_page.DATA, wanted)


@pytest.mark.slow
def test_drafts_are_judged_by_their_targets(tmp_path: Path) -> None:
    drafting.main(["--quick", "--head", "pg", "--out", str(tmp_path / "drafting.csv")])
    path = tmp_path / "drafting.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(",made up,", ",stories,"), encoding="utf-8")
    table = drafting_tables.drafting(tmp_path, table_parts.targets(performance_page.TARGETS))
    assert "| toy pg, random: stories, generated (2 texts) | tokens per pass |" in table
    assert table.count("(≥ 0.97, ") == 1
    assert drafting_tables.choices(tmp_path, {}) == table_parts.NOTHING


@pytest.mark.slow
def test_from_measurement_to_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every script at toy size; their rows become tables and figures."""
    quick = ["--quick", "--head", "softmax"]
    data = tmp_path / "data"
    head_cost.main([*quick, "--out", str(data / "head_cost.csv")])
    training_step.main([*quick, "--suite", "gpt2-small", "--out", str(data / "training_cost.csv")])
    profile_step.main([*quick, "--top", "3", "--out", str(data / "profile_step.csv")])
    decoding_speed.main([*quick, "--beams", "1", "--batch", "1", "--out", str(data / "decoding_speed.csv")])
    one = training_step.Suite("toy", ("softmax",), 1, 16, vocabulary=300)
    monkeypatch.setattr(sweeps, "points", lambda sweep, quick: [one])
    sweeps.main(["length", *quick, "--out", str(data / "sweeps.csv")])
    monkeypatch.setattr(throughput, "METRICS", ("distinct",))
    throughput.main([*quick, "--part", "scoring", "--part", "evaluate", "--out", str(data / "throughput.csv")])
    monkeypatch.setattr(startup, "COMMANDS", {name: ["-c", "pass"] for name in startup.COMMANDS})
    startup.main(["--quick", "--out", str(data / "startup.csv")])
    text_memory.main(["--quick", "--tokens", "2000", "--ask", "5", "--out", str(data / "text_memory.csv")])
    audit_cost.main(["--quick", "--out", str(data / "audit_cost.csv")])
    serving_speed.main(["--engine", "transformers", "--quick", "--out", str(data / "serving_speed.csv")])
    # toy rows under the names that the page and its figures look for
    for name, column, value in (("decoding_speed", "toy", "three-layers"),):
        path = data / f"{name}.csv"
        path.write_text(path.read_text(encoding="utf-8").replace(column, value), encoding="utf-8")

    guide = tmp_path / "guide.md"
    guide.write_text("<!-- measured: summary -->\n<!-- end -->\n", encoding="utf-8")
    places = ["--data", str(data), "--records", str(tmp_path), "--guide", str(guide)]
    places += ["--images", str(tmp_path / "images")]
    performance_page.main(places)
    written = (tmp_path / "performance.md").read_text(encoding="utf-8")
    missing = 4 + len(performance_page.PAGES["performance"].files)  # full-size decoding, a store, context, long memory
    assert written.count("not measured yet") == missing
    assert written.count("| `softmax` |") == 8  # three costs, training, history, sweeps, scoring, serving
    assert "| `--quick` | 3 × 20: " in written
    assert "| `softmax` |" in guide.read_text(encoding="utf-8")
    judged = performance_page.page_of("performance", data, table_parts.targets(performance_page.TARGETS))
    assert "(≤ 60.00, met)" in judged
    assert "(≥ 0.90, " in judged  # cache beside softmax in the same engine
    assert "(≤ 0.50, " in judged
    assert nw.__version__ in read(data / "sweeps.csv")[0]["nextword"]
    drawn = sorted(path.name for path in (tmp_path / "images" / "performance").iterdir())
    assert drawn == [f"{name}{dark}.svg" for name in ("history", "sweeps", "training") for dark in ("-dark", "")]
    performance_page.main([*places, "--check"])
    (tmp_path / "performance.md").write_text(written.replace("| `softmax` |", "| softmax |"), encoding="utf-8")
    with pytest.raises(SystemExit, match="older than the rows"):
        performance_page.main([*places, "--check"])


def test_requests_whose_prompts_are_read_before_show_growth_with_the_context(tmp_path: Path) -> None:
    where = {"engine": "vllm", "engine_version": "1", "size": "small", "requests": "2", "new": "8", "rounds": "3"}
    about = {"processor": "one", "threads": "2", "torch": "2", "allocator": "default", "date": "2026-11-23"}
    rows = [
        where
        | {"read_before": True, "length": length, "head": head, "tokens_per_s": speed, "over_softmax": over}
        | about
        for length, head, speed, over in ((256, "softmax", 20, 1), (256, "pg", 16, 0.8), (8192, "softmax", 10, 1))
    ]
    append(tmp_path / "serving_speed.csv", rows)
    wanted = table_parts.targets(performance_page.TARGETS)
    assert "| `softmax` | 50.0 / 1.00 | 100.0 / 1.00 |" in tables.context(tmp_path, wanted)
    assert "| `pg` | 62.5 / 0.80 | – |" in tables.context(tmp_path, wanted)
    assert tables.serving(tmp_path, wanted) == table_parts.NOTHING


def test_a_datastore_becomes_a_table(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="the benchmark compares with FAISS")
    datastore.main(["--quick", "--out", str(tmp_path / "datastore.csv")])
    table = tables.datastore(tmp_path, table_parts.targets(performance_page.TARGETS))
    assert "**4,000 keys of width 16, stored.txt**" in table
    assert "| exact |" in table
    assert "| IVF8,Flat nprobe=4 |" in table
    rows = read(tmp_path / "datastore.csv")
    assert [row["search"] for row in rows] == ["exact", "IVF8,Flat"]
    assert float(rows[0]["perplexity"]) > 1
    assert float(rows[0]["perplexity_off_percent"]) == 0
    assert float(rows[0]["bytes_over_keys"]) > 1


@pytest.mark.parametrize(
    ("recall", "faster", "off", "said"),
    [(0.96, 25.0, 0.1, "at once: IVF8,Flat nprobe=4."), (0.94, 25.0, 0.1, "at once: **none**."),
     (0.96, 19.9, 0.1, "at once: **none**."), (0.96, 25.0, 0.51, "at once: **none**.")],
)  # fmt: skip
def test_an_index_is_to_reach_all_its_targets_at_once(
    tmp_path: Path, recall: float, faster: float, off: float, said: str
) -> None:
    about = {"data": "a.txt", "keys": 1000, "width": 8, "build_over_forward": 1.2}
    about |= {"build_over_states": 1.3, "bytes_over_keys": 1.05}
    place = {"processor": "one", "threads": "2", "torch": "2", "allocator": "default", "date": "2026-11-23"}
    exact = {"search": "exact", "parameters": "", "recall_at_10": 1.0, "ms_a_query": 5.0, "over_numpy": 1.4,
             "over_in_memory": 1.7, "faster_than_exact": 1.0, "perplexity": 90.0,
             "perplexity_off_percent": 0.0}  # fmt: skip
    index = {"search": "IVF8,Flat", "parameters": "nprobe=4", "recall_at_10": recall, "ms_a_query": 0.2,
             "over_numpy": 0.1, "faster_than_exact": faster, "perplexity": 90.0,
             "perplexity_off_percent": off}  # fmt: skip
    append(tmp_path / "datastore.csv", [about | row | place for row in (exact, index)])
    table = tables.datastore(tmp_path, table_parts.targets(performance_page.TARGETS))
    assert said in table
    assert "Building time relative to a forward pass: 1.20 (≤ 1.15, **missed**); to one without" in table
    assert "the output layer: 1.30." in table
    assert "| exact | 5.0 | 1.40 (≤ 1.50, met) | 1.70 |" in table


def test_a_long_memory_has_times_that_agree_with_its_ratio(tmp_path: Path) -> None:
    """Also where the machine was slower in some rounds: both times are of the round in the middle."""
    row = long_memory._row("training", "long", 8, [4.4, 12.0, 13.2], [4.0, 11.0, 11.0], 0)
    assert (row["ms"], row["baseline_ms"], row["ratio"]) == ("4400.0", "4000.0", "1.100")
    assert (row["lowest"], row["highest"]) == ("1.091", "1.200")
    long_memory.main(["--quick", "--out", str(tmp_path / "long_memory.csv")])
    table = tables.long_memory(tmp_path, table_parts.targets(performance_page.TARGETS))
    assert "| decoding, softmax | 0 |" in table
    assert "(≤ 1.10, " in table


def test_a_process_that_fails_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match="failed: stop here"):
        startup.started(["-c", "raise SystemExit('stop here')"])


def test_a_model_looks_the_same_in_every_panel() -> None:
    from matplotlib.figure import Figure
    from pictures.performance import _lines, _models

    def rows(*names: str) -> list[dict[str, str]]:
        return [{"model": name, "ms": "1"} for name in names]

    groups = [(1, rows("baseline", "a", "b")), (2, rows("baseline", "b"))]
    panels = Figure().subplots(1, 2)
    for panel, group in zip(panels, groups, strict=True):
        _lines(panel, [group], "ms", _models(groups))
    looks = [{line.get_label(): (line.get_color(), line.get_marker()) for line in panel.lines} for panel in panels]
    assert list(looks[1]) == ["baseline", "b"]
    assert looks[1].items() <= looks[0].items()
