from __future__ import annotations

import pytest

from nextword.comparison.method import Method
from nextword.reproduction.planning.gpus import UTILISATION
from nextword.reproduction.planning.training_time import gpu_speed, measured_steps, speed_here, training_seconds
from nextword.reproduction.planning.work import PlannedTraining
from nextword.training.settings import TrainingSettings
from tests.helpers import made_up_results

SINGLE, HALF = TrainingSettings(steps=10), TrainingSettings(steps=10, bf16=True)


def test_hours_follow_from_the_published_peak_and_the_share_of_it():
    assumed, given = gpu_speed("A100 40GB"), gpu_speed("A100 40GB:0.5")
    assert given.seconds(1e12, HALF) == pytest.approx(1 / 156)
    assert given.seconds(1e12, SINGLE) == pytest.approx(1 / 9.75)
    assert assumed.seconds(1e12, HALF) == pytest.approx(1 / 312 / UTILISATION)
    assert "an assumption" in assumed.told
    assert "as given" in given.told


@pytest.mark.parametrize("share", ["0", "1.5", "much", "-1", "nan"])
def test_a_wrong_share_is_refused(share):
    with pytest.raises(ValueError, match=r"--gpu: must be NAME or NAME:SHARE"):
        gpu_speed(f"L4:{share}")


def test_this_machine_is_measured_once():
    assert speed_here() is speed_here()
    assert 1e8 < speed_here().single < 1e15


def test_steps_of_finished_runs_count_more_than_any_estimate(tmp_path):
    assert measured_steps(tmp_path) == {}
    results = made_up_results.make_sample()
    results.save(tmp_path / "results.json")
    measured = measured_steps(tmp_path)
    run = results.runs[0]
    assert measured[run.method] == run.cost.ms_per_step / 1000
    training = PlannedTraining("x", Method(head="softmax", label=run.method), 0, SINGLE, 3, 10, 100)
    speed = gpu_speed("L4")
    assert training_seconds(training, 1e12, speed, measured) == pytest.approx(30 * run.cost.ms_per_step / 1000)
    assert training_seconds(training, 1e12, speed, {}) == pytest.approx(3 * speed.seconds(1e12, SINGLE))
    assert training_seconds(training, None, speed, {}) is None
    (tmp_path / "results.json").write_text("{")
    assert measured_steps(tmp_path) == {}
