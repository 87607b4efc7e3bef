"""What may differ between a comparison and the folder that it goes on in, and what may not."""

from __future__ import annotations

from typing import Any

import pytest

from nextword.experiments.comparison.comparison_settings import configured, plain
from nextword.experiments.comparison.folder import _beyond_defaults, differences
from nextword.experiments.comparison.method import Method

SOFTMAX = plain(Method(head="softmax"))
CLAIM: dict[str, Any] = {
    "nextword": "0.1",
    "task": "lm",
    "task_settings": {"batch_size": 8, "start": {"n_layer": 2}},
    "methods": {"softmax": SOFTMAX},
    "seeds": {"0": 0},
}


def test_methods_seeds_and_the_librarys_version_may_differ() -> None:
    more = {"methods": CLAIM["methods"] | {"mos:2": plain(Method(head="mos:2"))}, "seeds": {"0": 0, "1": 1}}
    assert differences(CLAIM, CLAIM | more | {"nextword": "0.2"}) == []


def test_what_was_there_may_not_go_or_change() -> None:
    changed = {"methods": {"softmax": SOFTMAX | {"objective": "face", "training": {"steps": 2}}}, "seeds": {"1": 1}}
    assert differences(CLAIM, CLAIM | changed) == [
        'methods.softmax.objective: "mle" there, "face" asked for',
        "methods.softmax.training.steps: nothing there, 2 asked for",
        "seeds.0: 0 there, nothing asked for",
    ]


def test_a_setting_in_a_table_is_named_in_full_and_may_be_free() -> None:
    other = CLAIM | {"task_settings": {"batch_size": 4, "start": {"n_layer": 3}}}
    free = frozenset({"task_settings.batch_size"})
    assert differences(CLAIM, other, free) == ["task_settings.start.n_layer: 2 there, 3 asked for"]


def test_settings_that_came_later_are_those_of_then() -> None:
    """A folder of a version whose methods had fewer settings."""
    before = {"methods": {"softmax": {"head": "softmax", "objective": "mle"}}}
    assert differences(CLAIM | before, CLAIM) == []


def test_a_setting_of_the_task_that_came_later_and_is_not_set_is_no_difference() -> None:
    now = CLAIM | {"task_settings": {"batch_size": 8, "start": {"n_layer": 2, "tied": None}, "draws": None}}
    assert differences(CLAIM, now) == []
    now["task_settings"]["draws"] = [0, 1]
    assert differences(CLAIM, now) == ["task_settings.draws: nothing there, [0, 1] asked for"]
    assert differences(now, CLAIM) == [
        "task_settings.draws: [0, 1] there, nothing asked for",
        "task_settings.start.tied: null there, nothing asked for",
    ]


@pytest.mark.parametrize(
    ("begun", "asked", "same"),
    [
        (
            {},
            {"learning_rate": 5e-5, "learning_rates": {"head": 1e-4, "conditioner": 1e-4}, "warmup_ratio": 0.06},
            True,
        ),
        ({}, {"warmup_ratio": 0.06}, True),
        ({}, {"learning_rate": 5e-5}, False),  # which is that of the head too
        ({"learning_rate": 5e-5}, {"learning_rate": 5e-5, "learning_rates": {"head": 1e-4}}, False),
        ({"steps": 20}, {"epochs": 2.0}, False),
    ],
)
def test_settings_that_are_defaults_need_not_be_given(begun, asked, same):
    def training(given):
        config = configured({"task": "lm", "methods": ["softmax"], "start": {"model": "gpt2"}, "training": given})
        return _beyond_defaults({"training": given}, config)

    assert (training(begun) == training(asked)) == same
