from __future__ import annotations

import pytest

from nextword.results.records import MetricValue, Results
from nextword.results.report.formats import plain, signed, value
from tests.helpers.expanded_results import expansion
from tests.helpers.report_pages import drawn, read, shown


@pytest.mark.parametrize("decimals", [0, 1, 3])
def test_what_rounds_to_nothing_has_no_sign(decimals: int) -> None:
    zero = f"{0:.{decimals}f}"
    assert value(-1e-6, "nats", decimals) == signed(-1e-6, "nats", decimals) == signed(1e-6, "nats", decimals) == zero
    assert value(-0.0, "fraction", None) == plain(-0.0) == "0"


def test_signs_of_what_is_not_nothing_stay() -> None:
    assert (value(-0.6, "nats", 0), signed(-0.6, "nats", 0), signed(0.6, "nats", 0)) == ("-1", "-1", "+1")
    assert (signed(0.001, "fraction", 1), signed(-0.001, "fraction", 1)) == ("+0.1", "-0.1")


def unsteered() -> Results:
    """A comparison whose steering is a hair below nothing."""
    results = expansion(seeds=(1, 2))
    hair = MetricValue(value=-0.0004, unit="nats per token", n=10, low=-0.0004, high=0.0001)
    runs = []
    for run in results.runs:
        metrics = run.evaluation.metrics | {"steering": hair, "prompted_steering": hair}
        runs.append(run.model_copy(update={"evaluation": run.evaluation.model_copy(update={"metrics": metrics})}))
    return results.model_copy(update={"runs": runs})


@pytest.mark.slow
def test_no_minus_before_nothing_on_the_page_or_in_the_terminal() -> None:
    assert "-0.000" not in read(drawn(unsteered())).text
    assert "-0.000" not in shown(unsteered(), 160)
