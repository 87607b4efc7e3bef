"""Krippendorff's alpha against his own worked examples."""

from __future__ import annotations

import numpy as np
import pytest

from nextword.evaluation.survey.survey_table import alpha, coded, percent_agreement
from nextword.results.records.survey_files import Level
from nextword.runtime import optional_libraries

NAN = np.nan
WORKED = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
])  # fmt: skip
"""Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), part C: four observers, twelve units."""


@pytest.mark.parametrize(("level", "printed"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_the_worked_example_of_krippendorff(level: Level, printed: float) -> None:
    assert alpha(WORKED, level) == pytest.approx(printed, abs=5e-4)


def test_two_observers_of_his_example() -> None:
    """Part B of the same: Meg and Owen, twelve articles, nominal data."""
    table = np.array([[ord(letter) for letter in said] for said in ("aabbdcccedda", "babbbccceddd")], dtype=np.float64)
    assert alpha(table, "nominal") == pytest.approx(0.692, abs=5e-4)
    assert percent_agreement(table) == pytest.approx(9 / 12)


def test_nothing_judged_twice_has_no_agreement() -> None:
    once = np.array([[1.0, NAN], [NAN, 2.0]])
    assert alpha(once, "nominal") is None
    assert percent_agreement(once) is None
    assert alpha(np.ones((2, 3)), "nominal") is None


def test_answers_become_numbers_of_their_scale() -> None:
    answers = [("x", ("i1", "u1"), "5"), ("y", ("i1", "u1"), "3"), ("y", ("i2", "u1"), "5")]
    assert coded(answers, ["3", "5"], "interval").tolist()[1] == [3, 5]
    table = coded(answers, ["3", "5"], "nominal")
    assert table[0, 0] == 1
    assert np.isnan(table[0, 1])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_libraries, "_is_there", lambda module: False)
    with pytest.raises(ValueError, match=r"pip install 'nextword\[survey\]'"):
        alpha(WORKED, "nominal")
