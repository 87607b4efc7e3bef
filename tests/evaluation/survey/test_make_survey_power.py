from __future__ import annotations

import numpy as np
import pytest

from nextword.evaluation.survey.make_survey import detectable_difference, statement
from nextword.evaluation.survey.survey_settings import PowerConfig, SurveyConfig


@pytest.mark.parametrize(("items", "judges", "agreement"), [(100, 3, 0.3), (40, 5, 0.5), (60, 1, 0.3)])
def test_the_difference_is_found_as_often_as_said(items: int, judges: int, agreement: float) -> None:
    config = SurveyConfig(items=items, judges=judges, power=PowerConfig(spread=0.9, agreement=agreement, power=0.8))
    rng = np.random.default_rng(0)
    shape = (4000, items, 1)
    shared = rng.normal(0, 0.9 * agreement**0.5, shape)
    own = rng.normal(0, 0.9 * (1 - agreement) ** 0.5, (4000, items, judges))
    means = (detectable_difference(config) + shared + own).mean(axis=2)
    z = means.mean(axis=1) / (means.std(axis=1, ddof=1) / items**0.5)
    assert float((np.abs(z) > 1.96).mean()) == pytest.approx(0.8, abs=0.02)


def test_more_items_and_judges_show_less() -> None:
    config = SurveyConfig()
    assert detectable_difference(config, items=400) == pytest.approx(detectable_difference(config) / 2)
    assert detectable_difference(config, judges=5) < detectable_difference(config)
    told = list(statement(config, "points"))
    assert told[0].startswith(
        "100 items with 3 judges each can detect a difference of 0.20 (points) with a power of 80 %"
    )
