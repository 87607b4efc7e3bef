from __future__ import annotations

from dataclasses import replace

import pytest

from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.reproduction.planning.experiment_work import experiment_work
from nextword.experiments.reproduction.planning.training_time import UTILISATION, gpu_speed
from nextword.experiments.training.settings import TrainingSettings

SINGLE, HALF = TrainingSettings(steps=10), TrainingSettings(steps=10, bf16=True)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Two methods on GPT-2 as it was published, which is not here, and no data."""
    recipe = {
        "task": {"name": "lm", "data": str(tmp_path_factory.mktemp("data")), "block": 128},
        "methods": ["softmax"],
    }
    return experiment_work(configured(recipe, ["start.model=gpt2"]), None)


def test_hours_follow_from_the_published_peak_and_the_share_of_it(work):
    assumed, given = gpu_speed("A100 40GB"), gpu_speed("A100 40GB:0.5")
    (training,) = work.trainings
    half, single = (replace(training, settings=settings, steps=10) for settings in (HALF, SINGLE))
    assert half.tokens == 10 * HALF.batch_size * 128
    operations = 6 * work.sizes["softmax"].parameters * HALF.batch_size * 128
    assert given.cost(half, work).seconds == pytest.approx(operations / 156e12)
    assert given.cost(single, work).seconds == pytest.approx(operations / 9.75e12)
    assert assumed.cost(half, work).seconds == pytest.approx(operations / 312e12 / UTILISATION)
    assert "an assumption" in assumed.told
    assert "as given" in given.told


def test_what_a_gpu_has_no_memory_for_says_so(work):
    (training,) = work.trainings
    large = replace(training, settings=TrainingSettings(steps=10, batch_size=4096))
    cost = gpu_speed("L4").cost(large, work)
    assert cost.memory > 24e9
    assert cost.reason == f"needs about {cost.memory / 1e9:.0f} GB of memory, but the GPU has 24 GB"


@pytest.mark.parametrize("share", ["0", "1.5", "much", "-1", "nan"])
def test_a_wrong_share_is_refused(share):
    with pytest.raises(ValueError, match=r"^gpu:.*NAME:SHARE"):
        gpu_speed(f"L4:{share}")
