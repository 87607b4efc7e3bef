"""What tables take: what is said of them, and that all of them keep within what a small run may take."""

from __future__ import annotations

import pytest

from nextword.experiments.reproduction.experiment import (
    WITHOUT_TRAINING,
    effort,
    find_experiment,
    known_experiments,
    minutes_of,
)
from nextword.experiments.reproduction.paper import find_table
from nextword.experiments.reproduction.reproduce_tables import all_tables

SMALL = [name for name, one in known_experiments().items() if one.small is not None]
TRAINED = [
    name
    for name in all_tables()
    if find_table(name).kind not in WITHOUT_TRAINING
    and any(find_experiment(one).small is not None for one in find_table(name).experiments)
]
OF_OTHER_TABLES = {"histalign/training-times", "f2-softmax/table-9a", "f2-softmax/table-9b"}
"""They run nothing of their own: times of all the trainings of a paper, rankings over both of its data sets."""
MOST = 20
"""Minutes on two cores that a table may take, and as many once for what its runs begin from."""


def test_a_table_that_another_experiment_fills_at_one_scale_says_that_one_s_minutes():
    table = find_table("f2-softmax/table-1a")
    minutes = find_experiment("f2-pretrained").pretrained.minutes
    assert effort(table, "pretrained") == f"about {minutes:.0f} min"


@pytest.mark.parametrize("name", SMALL)
def test_every_small_experiment_says_how_long_it_takes(name):
    one = find_experiment(name).small
    assert one.minutes is not None
    assert one.minutes > 0


@pytest.mark.parametrize("name", TRAINED)
def test_a_table_takes_its_time_on_two_cores_at_most(name):
    minutes = minutes_of(find_table(name))
    assert minutes is not None, "an experiment of it has no minutes"
    if name not in OF_OTHER_TABLES:
        assert minutes.runs / 2 <= MOST, "two runs side by side (--engine ray --cpus 1)"


@pytest.mark.parametrize("name", SMALL)
def test_a_start_takes_its_time_at_most(name):
    assert (find_experiment(name).small.start_minutes or 0) <= MOST


def test_all_tables_together_take_six_hours_at_most():
    small = [find_experiment(name).small for name in SMALL]
    assert sum((one.minutes or 0) / 2 + (one.start_minutes or 0) for one in small) <= 6 * 60


def test_a_start_that_experiments_share_counts_once():
    parts = [find_experiment(name).small for name in find_table("softmax-cpr/figure-4").experiments]
    shared = find_experiment("summaries-xsum").small.start_minutes
    minutes = minutes_of(find_table("softmax-cpr/figure-4"))
    assert minutes.runs == sum(one.minutes for one in parts if one is not None)
    assert minutes.starts == shared
    assert effort(find_table("softmax-cpr/figure-4")) == f"about {minutes.runs + shared:.0f} min"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("histalign/table-8", "no training"),
        ("histalign/table-4", "people's judgements"),
        ("histalign/figure-2", "a drawing"),
    ],
)
def test_tables_that_train_nothing_say_so(name, said):
    assert effort(find_table(name)) == said


def test_a_table_that_uses_the_runs_of_another_experiment_takes_as_long():
    of_all, of_one = (minutes_of(find_table(f"histalign/{name}"), "pretrained") for name in ("table-2", "table-9"))
    assert of_all == of_one
    assert of_all is not None
