"""A step of decoding with a static cache is one graph: no break, and the same graph in every step."""

from __future__ import annotations

import pytest

from tests.helpers import compiled_steps
from tests.helpers.compiled_steps import FEW, OTHERS
from tests.helpers.own_process import printed
from tests.helpers.recomputation import TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "case"),
    [("few", case) for case in FEW] + [pytest.param("others", case, marks=[pytest.mark.slow]) for case in OTHERS],
)
def test_step_is_one_graph(which: str, case: str) -> None:
    result = printed(compiled_steps.__name__, which)[case]
    assert "broken" not in result, result["broken"]
    assert result["graphs"] == 1
    assert result["gap"] < TOLERANCE


@pytest.mark.slow
def test_windows_with_a_long_memory_are_the_same_compiled() -> None:
    assert printed(compiled_steps.__name__, "windows") < TOLERANCE
