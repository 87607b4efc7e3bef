from __future__ import annotations

import pytest

from nextword.evaluation.metrics import MissingFieldError, Sample
from nextword.evaluation.metrics.sample import AllOrNone
from nextword.evaluation.metrics.tokens import Words


def at(line: int) -> Sample:
    return Sample().bound(f"x.jsonl, line {line}", Words())


@pytest.mark.parametrize("present", [True, False])
def test_the_first_decides(present: bool) -> None:
    field = AllOrNone("size")
    assert [field.has(at(1), present), field.has(at(2), present)] == [present, present]


@pytest.mark.parametrize(
    ("first", "message"),
    [(True, "line 2: must have 'size', because .*line 1"), (False, "line 1: must have 'size', because .*line 2")],
)
def test_the_line_without_is_named(first: bool, message: str) -> None:
    field = AllOrNone("size")
    field.has(at(1), first)
    with pytest.raises(MissingFieldError, match=message):
        field.has(at(2), not first)
