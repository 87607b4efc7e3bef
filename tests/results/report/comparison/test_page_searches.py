from __future__ import annotations

import pytest

from nextword.results.records import GridSearch, TriedSettings
from nextword.results.report.comparison.page import render
from tests.helpers import made_up_results
from tests.helpers.report_pages import tables

SEARCH = GridSearch(
    seed=3,
    tried=[
        TriedSettings(settings={"training.learning_rate": 1e-5, "objective.alpha": 0.5}, nats=3.25),
        TriedSettings(settings={"training.learning_rate": 3e-5, "objective.alpha": 0.5}, nats=3.125),
        TriedSettings(settings={"training.learning_rate": 1.0, "objective.alpha": 0.5}, reason="diverged at step 2"),
    ],
    chosen={"training.learning_rate": 3e-5, "objective.alpha": 0.5},
)


def test_every_combination_with_its_loss_and_the_choice():
    results = made_up_results.make_sample().model_copy(update={"searches": {"HistAlign": SEARCH}})
    page = render(results)
    assert "Search of HistAlign, seed 3" in page
    (search,) = [table for table in tables(page, "facets") if "Validation loss" in table[0]]
    assert search[1:] == [
        ["training.learning_rate = 1e-05, objective.alpha = 0.5", "3.2500"],
        ["★training.learning_rate = 3e-05, objective.alpha = 0.5", "3.1250"],
        ["training.learning_rate = 1, objective.alpha = 0.5", "diverged at step 2"],
    ]


@pytest.mark.slow
def test_a_page_without_searches_has_no_such_section():
    assert 'id="search"' not in render(made_up_results.make_sample())
