from __future__ import annotations

from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.reproduction.planning.experiment_work import (
    RowLength,
    planned_trainings,
    row_length,
)

COMMON = {"steps": 100, "batch_size": 4, "gradient_accumulation_steps": 2}
ROW = RowLength(10, "exactly")


def plans(*methods, seeds=(0, 1)):
    config = configured({"task": {"name": "lm"}, "methods": list(methods), "seeds": list(seeds), "training": COMMON})
    return planned_trainings(config, 100, ROW)


def test_what_methods_share_is_trained_once():
    then = {"objective": "mle", "training": {"steps": 5}}
    first, second = plans(
        "softmax", {"head": "softmax", "then": then, "label": "two"}, {"head": "cache", "trained_as": "softmax"}
    )
    assert (first.runs, first.steps, first.tokens) == (2, 100, 100 * 8 * 10)
    assert (second.stage, second.steps, second.tokens) == (1, 5, 5 * 8 * 10)


def test_what_is_not_trained_is_no_training():
    assert plans({"head": "cache", "trained": False}) == []


def test_a_search_trains_each_combination_once_and_the_best_with_the_other_seeds():
    grid = {"training.learning_rate": [1e-5, 3e-5, 5e-5]}
    assert sum(one.runs for one in plans({"head": "cache", "search": grid})) == 4
    assert sum(one.runs for one in plans({"head": "cache", "search": grid, "search_seed": 7})) == 5


def test_epochs_are_steps_where_the_number_of_rows_is_known():
    training = {"steps": None, "epochs": 1.5, "batch_size": 8, "gradient_accumulation_steps": 2}
    config = configured({"task": {"name": "lm"}, "methods": ["softmax"], "training": training})
    # 5 steps an epoch, 7.5 in all: Trainer makes another one of half a step
    assert [planned_trainings(config, rows, ROW)[0].steps for rows in (80, None)] == [8, None]


def test_a_row_without_a_length_in_the_settings_is_not_guessed():
    assert row_length({"length": 128}) == RowLength(128, "exactly")
    assert row_length({}) is None
