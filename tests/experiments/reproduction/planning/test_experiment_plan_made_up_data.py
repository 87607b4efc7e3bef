from __future__ import annotations

from nextword.experiments.comparison.comparison_settings import configured, read
from nextword.experiments.reproduction.planning.experiment_plan import made_up_task
from nextword.experiments.reproduction.planning.experiment_work import start_config


def test_texts_that_are_missing_are_made_up_so_that_the_start_can_be_built():
    data = {"task.data": "lyrics"}
    config = configured(read("f2-lyrics"), ["task.data=lyrics"])
    task = made_up_task(config, data)
    assert start_config(config, task).vocab_size == config.task_settings["vocabulary"]


def test_other_data_is_not_made_up():
    config = configured(read("expand-cnn"), ["task.data=cnn_dailymail/pairs.jsonl"])
    assert made_up_task(config, {"task.data": "cnn_dailymail/pairs.jsonl"}) is None
    assert start_config(config, None) is None
