from __future__ import annotations

import pytest

from nextword.evaluation.survey.survey_table import correlations
from nextword.results.records import Environment, EvaluationResults, Measure, MetricValue, SampleFile, SystemRecord


def measured(title: str, **values: float) -> EvaluationResults:
    measure = Measure(title=title, group="G", unit="points", goal="higher", meaning="m")
    systems = []
    for name, value in values.items():
        found = {"key": MetricValue(value=value, unit="points", n=3)}
        file = SampleFile(file=name, sha256="", samples=3, values=found)
        systems.append(SystemRecord(name=name, files=[file], values=found))
    return EvaluationResults(
        command="", unit="words", measures={"key": measure}, systems=systems, human=None, left_out={}, tests=[],
        untested=None, wins=None, settings={}, environment=Environment.collect(),
    )  # fmt: skip


def test_known_correlations_over_common_systems() -> None:
    people, automatic = measured("P", a=1, b=2, c=3, d=9), measured("Rep", c=30, a=10, b=30, e=1)
    (one,), why = correlations(people, automatic)
    assert why is None
    assert (one.people, one.automatic, one.systems) == ("key", "Rep", 3)
    assert one.pearson == pytest.approx(0.866025, abs=1e-6)
    assert one.spearman == pytest.approx(0.866025, abs=1e-6)
    assert one.kendall == pytest.approx(0.816497, abs=1e-6)


def test_what_does_not_vary_has_none() -> None:
    (one,), _ = correlations(measured("P", a=1, b=1, c=1), measured("Rep", a=1, b=2, c=3))
    assert (one.pearson, one.spearman, one.kendall) == (None, None, None)


def test_two_systems_are_too_few() -> None:
    found, why = correlations(measured("P", a=1, b=2), measured("Rep", a=1, b=2))
    assert found == []
    assert why is not None
    assert why.startswith("2 systems have both measures (a, b)")


def test_a_rated_reference_is_the_human_row() -> None:
    people, automatic = measured("P", a=1, b=2, reference=3), measured("Rep", a=3, b=2)
    file = SampleFile(file="", sha256="", samples=3, values={"key": MetricValue(value=1, unit="points", n=3)})
    (one,), _ = correlations(people, automatic.model_copy(update={"human": file}))
    assert (one.systems, one.pearson) == (3, pytest.approx(-1))
    assert correlations(people, automatic)[0] == []
