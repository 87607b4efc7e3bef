from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from nextword.evaluation.survey.make_survey import balanced_orders


@pytest.mark.parametrize("size", range(2, 10))
def test_everything_stands_everywhere_and_after_everything_equally_often(size: int) -> None:
    rows = balanced_orders(size)
    places = Counter((place, thing) for row in rows for place, thing in enumerate(row))
    follows = Counter(pair for row in rows for pair in pairwise(row))
    assert len(places) == size**2
    assert set(places.values()) == {len(rows) // size}
    assert len(follows) == size * (size - 1)
    assert len(set(follows.values())) == 1
