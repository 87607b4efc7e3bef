from __future__ import annotations

import pytest

from nextword.results.records import GridSearch, TriedSettings
from nextword.results.report.comparison.page import render, searches
from tests.helpers import made_up_results

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
    (search,) = searches(results)
    assert [one.chosen for one in search.tried] == [False, True, False]
    assert [one.nats for one in search.tried] == ["3.2500", "3.1250", "diverged at step 2"]
    assert search.tried[1].settings == "training.learning_rate = 3e-05, objective.alpha = 0.5"
    page = render(results)
    for text in ("Search of HistAlign, seed 3", "learning_rate = 3e-05", "3.1250", "diverged at step 2"):
        assert text in page


@pytest.mark.slow
def test_a_page_without_searches_has_no_such_section():
    assert 'id="search"' not in render(made_up_results.make_sample())
