from __future__ import annotations

import pytest

from nextword.inference.scoring.opened_model import batches, progress_within


@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 3), (3, 3), (7, 3), (7, 1)])
def test_every_row_once_in_order_and_progress_after_each_slice(count: int, size: int) -> None:
    shares: list[float] = []
    seen: list[int] = []
    for part in batches(range(count), size, shares.append):
        assert len(shares) == len(seen) // size  # this slice is not done yet
        assert 1 <= len(part) <= size
        seen += part
    assert seen == list(range(count))
    assert shares == sorted(shares)
    assert shares[-1:] == ([1.0] if count else [])


def test_nobody_watches() -> None:
    progress_within(None, 0.0, 0.5)(1.0)
    assert list(batches("abc", 2)) == ["ab", "c"]
