"""A run that fails is recorded, and the others go on."""

from __future__ import annotations

import pytest
import torch

from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.results.records import DiskFullError, Evaluation, MetricValue, Results
from tests.helpers.counting_task import FourNumbers, Heard
from tests.helpers.full_disk import largest_file

pytestmark = pytest.mark.usefixtures("counting", "quick_report")

BROKEN = {"head": "cache", "label": "broken", "training": {"learning_rate": 1e30}}
RECIPE = {"task": {"name": "counting"}, "methods": ["softmax", BROKEN, "cache"]}


def methods_of(results):
    return [run.method for run in results.runs]


@pytest.mark.slow
def test_a_method_that_diverges_is_recorded_and_the_others_go_on(tmp_path):
    heard = Heard()
    results = compare(configured(RECIPE), tmp_path, heard)
    assert methods_of(results) == ["softmax", "cache"]
    [failed] = results.failures
    assert (failed.method, failed.head, failed.objective, failed.seed) == ("broken", "cache", "mle", 0)
    assert failed.reason in ("diverged at step 2: the loss is nan", "diverged at step 2: the loss is inf")
    assert failed.traceback is None
    assert ("failed", "broken", 0) in heard.events
    assert Results.load(tmp_path / "results.json") == results


@pytest.mark.slow
def test_the_same_call_tries_again_what_failed_and_nothing_else(tmp_path):
    compare(configured(RECIPE), tmp_path)
    heard = Heard()
    results = compare(configured(RECIPE), tmp_path, heard)
    assert heard.trained == ["broken, seed 0"]
    assert len(results.failures) == 1


@pytest.mark.slow
def test_a_method_without_a_finished_run_may_be_changed_or_left_out(tmp_path):
    compare(configured(RECIPE), tmp_path)
    heard = Heard()
    mended = {**RECIPE, "methods": ["softmax", {**BROKEN, "training": {"learning_rate": 1e-3}}, "cache"]}
    results = compare(configured(mended), tmp_path, heard)
    assert heard.trained == ["broken, seed 0"]
    assert (methods_of(results), results.failures) == (["softmax", "broken", "cache"], [])
    with pytest.raises(ValueError, match=r"methods\.broken\.training\.learning_rate: 0\.001 there"):
        compare(configured(RECIPE), tmp_path)


def test_an_unexpected_error_leaves_its_traceback_and_lets_the_next_run_measure_its_memory(tmp_path, monkeypatch):
    step = torch.optim.AdamW.step

    def out_of_memory(self, *given, **named):
        raise torch.OutOfMemoryError("no 4 GiB left")

    class Breaking(Heard):
        def advanced(self, name, fraction):  # while memory is recorded
            if self.events[-1][0].startswith("mos"):
                monkeypatch.setattr(torch.optim.AdamW, "step", out_of_memory)

        def failed(self, run):
            assert not torch.autograd._profiler_enabled()
            monkeypatch.setattr(torch.optim.AdamW, "step", step)

    results = compare(configured({**RECIPE, "methods": ["mos:2", "softmax"]}), tmp_path, Breaking())
    [failed] = results.failures
    assert failed.reason == "OutOfMemoryError: no 4 GiB left"
    assert failed.traceback == "runs/mos-2-seed0/failure.txt"
    assert "in out_of_memory" in (tmp_path / failed.traceback).read_text()
    assert [run.cost.peak_memory_mib is not None for run in results.runs] == [True]


def test_nothing_works(tmp_path):
    results = compare(configured({**RECIPE, "methods": [BROKEN]}), tmp_path)
    assert (results.runs, len(results.failures)) == ([], 1)


@pytest.mark.parametrize(
    ("problem", "raised"),
    [
        (PermissionError(13, "Permission denied", "runs"), PermissionError),
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"), DiskFullError),
        (KeyboardInterrupt(), ComparisonInterrupted),
    ],
)
def test_what_would_meet_every_run_ends_the_comparison(tmp_path, monkeypatch, problem, raised):
    def gone(*_):
        raise problem

    monkeypatch.setattr("nextword.experiments.comparison.engines.engine.carry_out", gone)
    with pytest.raises(raised):
        compare(configured(RECIPE), tmp_path)


def test_a_start_that_diverges_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="start: diverged at step 2"):
        compare(configured({**RECIPE, "start": {"training": {"learning_rate": 1e30}}}), tmp_path)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_left_out_with_the_reason(tmp_path, monkeypatch, wrong):
    evaluate = FourNumbers.evaluate

    def with_overflow(self, *given):
        found = evaluate(self, *given)
        value = MetricValue(value=wrong, unit="per token", n=3)
        return found.model_copy(update={"metrics": {**found.metrics, "perplexity": value}, "spectrum": [1.0, wrong]})

    monkeypatch.setattr(FourNumbers, "evaluate", with_overflow)
    compare(configured({**RECIPE, "methods": ["softmax"]}), tmp_path)
    [run] = Results.load(tmp_path / "results.json").runs
    assert list(run.evaluation.metrics) == ["nll"]
    assert run.evaluation.spectrum is None
    assert run.evaluation.undefined == {"perplexity": str(wrong), "spectrum": str(wrong)}


def test_a_run_of_which_nothing_could_be_measured_failed(tmp_path, monkeypatch):
    nothing = Evaluation(metrics={"nll": MetricValue(value=float("nan"), unit="nats per token", n=3)})
    monkeypatch.setattr(FourNumbers, "evaluate", lambda *_: nothing)
    results = compare(configured({**RECIPE, "methods": ["softmax"]}), tmp_path)
    assert [failed.reason for failed in results.failures] == ["no metric has a finite value: nll is nan"]


@pytest.mark.slow
@pytest.mark.parametrize("room", [100, 6_000, 20_000, 40_000])
def test_a_full_disk_ends_the_comparison_in_one_line_and_the_same_call_does_the_rest(tmp_path, room):
    config = configured({**RECIPE, "methods": ["softmax", "cache"], "training": {"save_every": 2}})
    one_line = pytest.raises(DiskFullError, match=r"^[^\n]+ cannot be written: [^\n]+\. Make room and run[^\n]+$")
    with one_line, largest_file(room):
        compare(config, tmp_path / "full")
    results, expected = compare(config, tmp_path / "full"), compare(config, tmp_path / "whole")
    assert [(run.evaluation, run.curve) for run in results.runs] == [
        (run.evaluation, run.curve) for run in expected.runs
    ]
