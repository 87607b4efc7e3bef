"""Texts that each model draws several times."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from tests.helpers.counting_task import Heard

pytestmark = pytest.mark.usefixtures("counting", "writing", "quick_report")

WRITTEN = {
    "prompts": 6, "prefix": 3, "continuation": 4, "decodings": ["greedy", "top-k:3"], "metrics": ["likelihood", "rep"],
}  # fmt: skip
RECIPE = {"task": {"name": "writing", "generation": WRITTEN}, "methods": ["softmax", "mos:2"], "seeds": [0, 1]}


def samples(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.jsonl")}


@pytest.mark.slow
def test_a_decoding_is_drawn_several_times_without_training_again(tmp_path):
    untrained = {"head": "softmax", "trained": False, "tune": False}
    drawn = {**WRITTEN, "draws": [0, 1, 42]}
    recipe = {**RECIPE, "task": {"name": "writing", "generation": drawn}, "methods": ["softmax", untrained]}
    heard = Heard()
    results = compare(configured(recipe), tmp_path / "out", heard)
    assert heard.trained == ["start", "softmax, seed 0", "softmax, seed 1"]
    written, run = samples(tmp_path / "out"), results.runs[0]
    place = "runs/softmax-seed0/samples"
    assert run.samples["greedy"] == [f"{place}/greedy.jsonl"]
    assert run.samples["top-k 3"] == [f"{place}/top-k-3-draw-{seed}.jsonl" for seed in (0, 1, 42)]
    assert len({written[file] for file in run.samples["top-k 3"]}) == 3
    systems = results.texts["top-k 3"].systems
    assert [[len(model) for model in system.models] for system in systems] == [[3, 3], [3]]
    assert [len(system.models) for system in results.texts["greedy"].systems] == [2, 1]
    for model, run in zip(systems[0].models, (run for run in results.runs if run.method == "softmax"), strict=True):
        files = [tmp_path / "out" / file for file in run.samples["top-k 3"]]
        assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in files] == [one.sha256 for one in model]
    line = json.loads(written[f"{place}/top-k-3-draw-0.jsonl"].splitlines()[0])
    assert "".join(span.text for span in results.written[0].texts[1].spans) == line["text"]
    plain = compare(configured({**RECIPE, "methods": ["softmax"], "seeds": [1]}), tmp_path / "plain")
    (as_today,) = plain.runs[0].samples["top-k 3"]
    assert samples(tmp_path / "plain")[as_today] == written["runs/softmax-seed1/samples/top-k-3-draw-1.jsonl"]


@pytest.mark.slow
def test_a_run_that_was_killed_between_two_draws_writes_the_other(tmp_path):
    drawn = {**WRITTEN, "decodings": ["top-k:3"], "draws": [3, 5]}
    recipe = {"task": {"name": "writing", "generation": drawn}, "methods": ["softmax"], "seeds": [0]}
    whole = compare(configured(recipe), tmp_path / "whole")
    with pytest.raises(ComparisonInterrupted, match="0 of 1 runs"):
        compare(configured(recipe), tmp_path / "cut", Heard(killed_in=("softmax, seed 0", "texts")))
    (first,) = (tmp_path / "cut").rglob("*.jsonl")
    assert first.name == "top-k-3-draw-3.jsonl"
    written = first.stat().st_mtime_ns
    assert compare(configured(recipe), tmp_path / "cut").runs[0].samples == whole.runs[0].samples
    assert first.stat().st_mtime_ns == written
    assert samples(tmp_path / "cut") == samples(tmp_path / "whole")


@pytest.mark.slow
def test_a_folder_of_a_version_that_drew_once_goes_on(tmp_path):
    compare(configured(RECIPE), tmp_path)
    claim = json.loads((tmp_path / "compare.json").read_text())
    assert claim["task_settings"]["generation"].pop("draws") is None
    (tmp_path / "compare.json").write_text(json.dumps(claim))
    for path in (tmp_path / "runs").glob("*/record.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "samples": {title: of[0] for title, of in record["samples"].items()}}))
    heard = Heard()
    compare(configured(RECIPE), tmp_path, heard)
    assert heard.events == [("planned", 4, 4)]
    with pytest.raises(ValueError, match=r"task_settings\.generation\.draws:.*\[0, 1\] asked"):
        compare(configured(RECIPE, ["task.generation.draws=[0,1]"]), tmp_path)
