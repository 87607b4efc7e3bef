from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nextword.results import records
from nextword.results.records import (
    Cost,
    CurvePoint,
    Environment,
    Evaluation,
    ExamplePrediction,
    MetricValue,
    Results,
    RunRecord,
    TopWord,
    write_atomically,
)
from nextword.settings.config import field_docstrings


def make_run(method: str = "Cache LM", seed: int = 1, value: float = 0.75, **changes: Any) -> RunRecord:
    content: dict[str, Any] = {
        "method": method,
        "head": "cache",
        "objective": "histalign",
        "seed": seed,
        "evaluation": Evaluation(
            metrics={"acc@1": MetricValue(value=value, unit="fraction", n=200, low=0.5, high=0.875)},
            spectrum=[10.0, 1.0, 0.1],
            examples=[
                ExamplePrediction(
                    prompt="서울은 한국의",
                    expected=["수도"],
                    setting="joint",
                    top=[TopWord(word="수도", probability=0.3, sources={"softmax": 0.1, "cache": 0.2})],
                )
            ],
            tuned={"temperature": 1.5, "weight": None},
        ),
        "cost": Cost(parameters=100, trained_parameters=40, ms_per_step=1.5, peak_memory_mib=None, train_seconds=3.0),
        "curve": [CurvePoint(step=1, loss=2.5)],
        "settings": {"steps": 10, "nested": {"rate": 1e-3, "names": ["a", None, True]}},
    }
    return RunRecord(**(content | changes))


def make_results(*runs: RunRecord, **changes: Any) -> Results:
    content: dict[str, Any] = {
        "task": "ambiguous",
        "task_version": 1,
        "command": "nextword compare --task ambiguous --out runs/x",
        "data": {"train": 100, "source": "templates", "leak": 0.0},
        "start": {"layers": 2},
        "seeds": [1],
        "runs": list(runs) or [make_run()],
        "environment": Environment.collect(),
        "settings": {"steps": 10},
    }
    return Results(**(content | changes))


def test_results_survive_the_round_trip(tmp_path: Path) -> None:
    results = make_results(make_run(), make_run("Softmax", note="보통 소프트맥스"))
    results.save(tmp_path / "deep" / "results.json")
    assert Results.load(tmp_path / "deep" / "results.json") == results


def test_file_is_readable_text_of_the_current_schema(tmp_path: Path) -> None:
    make_results().save(tmp_path / "results.json")
    text = (tmp_path / "results.json").read_text(encoding="utf-8")
    assert "수도" in text
    assert json.loads(text)["schema_version"] == records.SCHEMA_VERSION


def test_one_run_can_be_saved_alone(tmp_path: Path) -> None:
    make_run().save(tmp_path / "record.json")
    assert RunRecord.load(tmp_path / "record.json") == make_run()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused_by_run_and_metric(value: float) -> None:
    with pytest.raises(ValueError, match=rf"run 'Cache LM' \(seed 1\): evaluation\.metrics\.acc@1\.value is {value}"):
        make_run(value=value)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"curve": [CurvePoint(step=1, loss=math.nan)]}, r"curve\.0\.loss is nan"),
        ({"evaluation": Evaluation(metrics={}, spectrum=[math.inf])}, r"evaluation\.spectrum\.0 is inf"),
        ({"evaluation": Evaluation(metrics={}, tuned={"weight": math.nan})}, r"evaluation\.tuned\.weight is nan"),
        ({"settings": {"a": {"b": [math.nan]}}}, r"settings\.a\.b\.0 is nan"),
    ],
)
def test_not_finite_is_refused_wherever_it_hides(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match=place):
        make_run(**changes)


def test_results_refuse_not_finite_data() -> None:
    with pytest.raises(ValueError, match=r"data\.leak is nan"):
        make_results(data={"leak": math.nan})


def test_a_nan_written_by_another_program_is_refused_on_load(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    make_results().save(path)
    path.write_text(path.read_text(encoding="utf-8").replace('"value": 0.75', '"value": NaN'), encoding="utf-8")
    with pytest.raises(ValueError, match=r"evaluation\.metrics\.acc@1\.value"):
        Results.load(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing\.json does not exist"):
        Results.load(tmp_path / "nothing.json")


def test_half_written_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    make_results().save(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(ValueError, match=r"results\.json"):
        Results.load(path)


def test_binary_file(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"results\.json cannot be read"):
        Results.load(tmp_path / "results.json")


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (records.SCHEMA_VERSION + 1, "written by a newer nextword; upgrade"),
        (0, "must be a whole number from 1"),
        ("1", "must be a whole number from 1"),
    ],
)
def test_only_known_schemas_are_read(tmp_path: Path, version: object, message: str) -> None:
    path = tmp_path / "results.json"
    # The unknown key shows that the version is judged before the fields.
    path.write_text(json.dumps({"schema_version": version, "unheard_of": 1}), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as refused:
        Results.load(path)
    assert "unheard_of" not in str(refused.value)


def test_every_wrong_place_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    make_results().save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["runs"][0]["cost"]["parameters"] = "many"
    content["extra"] = 1
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=r"results\.json") as refused:
        Results.load(path)
    assert "run 'Cache LM' (seed 1), cost.parameters: Input should be a valid integer" in str(refused.value)
    assert "extra: Extra inputs are not permitted" in str(refused.value)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for content in ("[]", "3", '{"runs": 3}', '{"runs": [3]}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match="not a valid Results record"):
            Results.load(path)


def test_records_are_frozen_and_strict() -> None:
    run = make_run()
    with pytest.raises(ValidationError, match="frozen"):
        run.seed = 2  # type: ignore[misc]
    with pytest.raises(ValidationError, match="valid integer"):
        make_run(seed="1")


def test_two_runs_of_one_name_and_seed_are_refused() -> None:
    with pytest.raises(ValueError, match="'Cache LM'"):
        make_results(make_run(), make_run())


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [(0.1, None, "both ends or none"), (None, 0.1, "both ends"), (0.5, 0.4, "low must not be above high")],
)
def test_intervals_are_intervals(low: float | None, high: float | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MetricValue(value=0.5, unit="fraction", n=1, low=low, high=high)


def test_every_field_is_described() -> None:
    pending: list[type[records.Record]] = [records.Record]
    while pending:
        model = pending.pop()
        pending += model.__subclasses__()
        assert field_docstrings(model).keys() == model.model_fields.keys(), model


def test_failure_in_the_middle_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_atomically(path, "earlier")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "later" * 1000)
    assert path.read_text(encoding="utf-8") == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_failure_of_the_last_step_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_atomically(path, "earlier")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "later")
    assert path.read_text(encoding="utf-8") == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_cannot_be_encoded_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_atomically(path, "earlier")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half a pair \ud800")
    assert path.read_text(encoding="utf-8") == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_what_is_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", "")
    (tmp_path / "b").write_text("", encoding="utf-8")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_collecting_the_environment_imports_no_torch() -> None:
    code = (
        "import sys; from nextword.results.records import Environment; Environment.collect(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_version_is_the_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the installation, which in an editable one is of the day it was made."""
    monkeypatch.setattr("nextword.results.records.measured_values.__version__", "9.9")
    assert Environment.collect().nextword == "9.9"


def test_environment_says_what_it_can() -> None:
    environment = Environment.collect()
    assert environment.threads >= 1
    assert environment.processor
    assert environment.python == ".".join(str(part) for part in sys.version_info[:3])
    assert environment.date.endswith("+00:00")


def test_commit_is_of_the_repository_the_library_is_tracked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "records.py"
    file.write_text("", encoding="utf-8")
    monkeypatch.setattr("nextword.results.records.measured_values.__file__", str(file))
    assert Environment.collect().commit is None

    def git(*arguments: str) -> str:
        named = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *named, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init")
    git("commit", "--allow-empty", "-m", "somebody's own project, with the library only lying in it")
    assert Environment.collect().commit is None
    git("add", "records.py")
    git("commit", "-m", "tracked")
    os.utime(file, (0, 0))  # git would note the new time in its index, under a lock
    index = (tmp_path / ".git" / "index").read_bytes()
    assert Environment.collect().commit == git("rev-parse", "HEAD")
    assert (tmp_path / ".git" / "index").read_bytes() == index
    file.write_text("changed = True", encoding="utf-8")
    assert Environment.collect().commit == git("rev-parse", "HEAD") + "-dirty"


def test_a_run_of_a_version_that_drew_once_has_one_file_for_each_decoding(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    make_run(samples={"greedy": ["a.jsonl"], "top-k 3": ["b.jsonl", "c.jsonl"]}).save(path)
    content = json.loads(path.read_text())
    assert RunRecord.load(path).samples == content["samples"]
    content["samples"] = {"greedy": "a.jsonl"}
    path.write_text(json.dumps(content))
    assert RunRecord.load(path).samples == {"greedy": ["a.jsonl"]}
    content["samples"] = "a.jsonl"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="samples"):
        RunRecord.load(path)
