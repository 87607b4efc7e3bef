from __future__ import annotations

import pytest

from nextword.results.records import Evaluation, Measure, MetricValue, known_measure, measures_of


@pytest.mark.parametrize(
    ("key", "title", "group", "setting", "subset", "goal"),
    [
        ("acc@1", "Acc@1", "Accuracy", "joint", "", "higher"),
        ("cache_only_acc@25", "Acc@25", "Accuracy, cache only", "cache_only", "", "higher"),
        ("people_acc@2", "Acc@2", "Accuracy, people", "joint", "people", "higher"),
        ("cache_only_people_acc@2", "Acc@2", "Accuracy, cache only, people", "cache_only", "people", "higher"),
        ("perplexity", "perplexity", "Likelihood", "joint", "", "lower"),
        ("bits_per_byte", "bits per byte", "Likelihood", "joint", "", "lower"),
        ("nll", "NLL", "Likelihood", "joint", "", "lower"),
        ("copy_recall", "copy recall", "Copying", "joint", "", "higher"),
        ("rare_copy_precision", "copy precision", "Copying, rare", "joint", "rare", "higher"),
        ("rank@1e-3", "at 1e-3", "Rank of log-probabilities", "joint", "", None),
        ("rank_undefined", "undefined", "Rank of log-probabilities", "joint", "", None),
        ("left_out", "left out", "Prompts", "joint", "", None),
        ("choices_copied_mass", "mass", "Listed words, choices", "joint", "choices", "higher"),
        ("choices_copied_spread", "spread", "Listed words, choices", "joint", "choices", "higher"),
        (
            "cache_only_lists_repeated_mass",
            "repeated",
            "Listed words, cache only, lists",
            "cache_only",
            "lists",
            "lower",
        ),
        ("prompted_nll", "NLL", "Likelihood, with prompt", "prompted", "", "lower"),
        ("prompted_perplexity", "perplexity", "Likelihood, with prompt", "prompted", "", "lower"),
        ("steering", "steering", "Steering", "joint", "", "higher"),
        ("prompted_steering", "steering", "Steering, with prompt", "prompted", "", "higher"),
        ("never_heard_of", "never_heard_of", "Other", "joint", "", None),
    ],
)
def test_metrics_are_presented(key: str, title: str, group: str, setting: str, subset: str, goal: str | None) -> None:
    found = known_measure(key)
    assert (found.title, found.group, found.setting, found.subset, found.goal) == (title, group, setting, subset, goal)


def of(keys: set[str]) -> Evaluation:
    return Evaluation(metrics={key: MetricValue(value=1.0, unit=f"unit of {key}", n=1) for key in keys})


def test_reading_order() -> None:
    keys = {"rank@1e-3", "cache_only_acc@2", "acc@10", "acc@2", "odd", "nll", "people_acc@1"}
    assert list(measures_of([of(keys)])) == [
        "acc@2",
        "acc@10",
        "cache_only_acc@2",
        "people_acc@1",
        "nll",
        "rank@1e-3",
        "odd",
    ]


def test_what_stands_under_one_heading_stays_together() -> None:
    keys = {"nll", "perplexity", "bits_per_byte", "prompted_nll", "prompted_perplexity", "steering"}
    assert list(measures_of([of(keys)])) == [
        "perplexity",
        "bits_per_byte",
        "nll",
        "prompted_perplexity",
        "prompted_nll",
        "steering",
    ]


def test_a_measure_travels_with_its_number() -> None:
    """What the record says of a metric holds, whatever its key; what it does not say is known by the key."""
    ours = known_measure("acc@2").model_copy(update={"title": "ours", "unit": "pages"})
    found = measures_of([of({"odd", "nll"})], {"odd": ours, "gone": ours})
    assert list(found) == ["odd", "nll"]
    assert (found["odd"].title, found["odd"].unit) == ("ours", "pages")
    assert (found["nll"].title, found["nll"].unit) == ("NLL", "unit of nll")


def test_setting_and_subset_are_written_where_there_is_one() -> None:
    """So that the records of evaluations, which have none, are what they were."""
    parts = known_measure("cache_only_people_acc@2", "fraction")
    assert Measure.model_validate_json(parts.model_dump_json()) == parts
    assert parts.model_dump().keys() - known_measure("nll").model_dump().keys() == {"setting", "subset"}
