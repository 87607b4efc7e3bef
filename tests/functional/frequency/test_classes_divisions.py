from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.functional.frequency import DIVISIONS, FrequencyClasses, divide, equal_frequency, equal_tokens, mefmax
from tests.oracles.textbook import mefmax as textbook

COUNTS = st.lists(st.integers(0, 12), min_size=1, max_size=20).filter(any)


@given(COUNTS, st.data())
def test_equal_frequency_against_the_textbook(counts: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(counts)))
    found = equal_frequency(counts, k)
    assert list(found.boundaries) == textbook.boundaries(counts, k)
    assert min(found.sizes) >= 1
    assert found.count == k


@given(COUNTS, st.data())
def test_equal_tokens_against_the_textbook(counts: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(counts)))
    assert list(equal_tokens(counts, k).boundaries) == textbook.equal_tokens(len(counts), k)


@given(COUNTS)
def test_classes_are_a_partition_in_order_of_frequency(counts: list[int]) -> None:
    found = mefmax(counts)
    assert sorted(token for k in range(found.count) for token in found.tokens(k).tolist()) == list(range(len(counts)))
    for number in range(found.count):
        assert (found.token_class[found.tokens(number)] == number).all()
    assert found.masses(counts).tolist() == [
        sum(counts[token] for token in found.tokens(number)) for number in range(found.count)
    ]
    ordered = np.array(counts)[found.order]
    assert (np.diff(ordered) <= 0).all()


def test_by_hand() -> None:
    assert equal_frequency([97, 1, 1, 1], 4).boundaries == (1, 2, 3, 4)
    assert equal_frequency([10, 0, 0], 3).boundaries == (1, 2, 3)
    assert equal_frequency([4, 3, 2, 1], 2).boundaries == (2, 4)
    assert equal_tokens([1, 2, 3, 4, 5], 3).boundaries == (2, 4, 5)
    assert equal_tokens([1, 2, 3, 4, 5], 3).token_class.tolist() == [2, 1, 1, 0, 0]


def test_divide_by_name() -> None:
    counts = [6, 6, 6, 5, 5, 5, 5, 2, 2, 2, 1, 1]
    assert set(DIVISIONS) == {"mefmax", "eq-freq", "eq-token"}
    assert divide(counts, "mefmax").boundaries == mefmax(counts).boundaries
    assert divide(counts, "eq-freq", 5).boundaries == equal_frequency(counts, 5).boundaries
    assert divide(counts, "eq-token", 5).boundaries == equal_tokens(counts, 5).boundaries


@pytest.mark.parametrize(
    ("division", "classes", "message"),
    [
        ("mefmaks", None, r"division: must be one of mefmax, eq-freq, eq-token \('mefmaks' given"),
        ("mefmax", 3, r"'mefmax': chooses the number of classes itself \(3 given"),
        ("eq-freq", None, "'eq-freq' needs the number of classes"),
        ("eq-token", None, "'eq-token' needs the number of classes"),
        ("eq-freq", 4, r"classes: must be from 1 to 3, the number of tokens \(4 given"),
        ("eq-token", 0, r"classes: must be from 1 to 3, the number of tokens \(0 given"),
    ],
)
def test_impossible_divisions(division: str, classes: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        divide([3, 2, 1], division, classes)


@pytest.mark.parametrize("ends", [[], [2], [0, 3], [2, 2, 3], [3, 2], [4]])
def test_boundaries_that_are_none(ends: list[int]) -> None:
    with pytest.raises(ValueError, match="boundaries"):
        FrequencyClasses.of([3, 2, 1], ends)
