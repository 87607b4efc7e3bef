from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.docs

PAGE = Path(__file__).parents[2] / "docs" / "counts.md"


def test_examples_run() -> None:
    names: dict[str, Any] = {}
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        exec(example, names)
    # "the" three times, "sat" twice, "cat", "on", "mat", "dog" once
    assert (names["counts"].total, names["counts"].distinct) == (9, 6)
    assert names["classes"].count == names["curve"].best


def test_division_in_the_text_runs() -> None:
    from nextword.functional import frequency
    from nextword.functional.frequency import TokenCounts

    (call,) = re.findall(r"`(frequency\.divide\(.*?\))`", PAGE.read_text(encoding="utf-8"))
    counts = TokenCounts([3, 2, 1, 0], None, "a text")
    assert eval(call, {"frequency": frequency, "counts": counts}).sizes == (2, 2)
