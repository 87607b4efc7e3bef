from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nextword.functional.frequency import FrequencyClasses, evenness, mefmax, mefmax_curve
from nextword.functional.frequency.classes import mass_boundaries
from tests.oracles import golden
from tests.oracles.textbook import mefmax as textbook

COUNTS = st.one_of(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),  # ties and zeros
    st.lists(st.integers(0, 10**12), min_size=1, max_size=25),
    st.builds(lambda n, one: [one] * n, st.integers(1, 40), st.integers(1, 10**12)),  # uniform
    st.builds(lambda rest, top: [*rest, top], st.lists(st.integers(0, 9), max_size=9), st.integers(50, 10**9)),
).filter(any)
GOLDEN = [name for name in golden.names("objectives") if name.startswith("objectives/mefmax_")]


def boundaries(counts: list[int], k: int) -> list[int]:
    ranked = np.sort(np.array(counts, dtype=np.int64))[::-1]
    return mass_boundaries(ranked, np.array([k])).tolist()


def test_all_golden_files_are_there() -> None:
    assert [name.split("_", 1)[1] for name in GOLDEN] == ["dominant", "ties", "uniform10", "zipf30k_s1"]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    published = {key: np.asarray(value) for key, value in golden.load(name).items()}
    counts = published["counts"]
    curve = mefmax_curve(counts)
    assert curve.ks.tolist() == published["Ks"].tolist()
    ends = np.split(published["bounds_flat"], np.cumsum(published["bounds_len"])[:-1])
    for k, end in zip(published["Ks"], ends, strict=True):
        assert boundaries(counts.tolist(), int(k)) == end.tolist()
    np.testing.assert_allclose(curve.values, published["single0_eq5"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(curve.between, published["uniformity_of_classes_single0"], rtol=0, atol=1e-12)
    assert curve.best == published["single0_K"]
    assert list(mefmax(counts).boundaries) == published["single0_bounds"].tolist()


@settings(deadline=None, max_examples=150)
@given(COUNTS)
@example([0, 2, 2291248, 2291249])  # the rare class is a millionth of the others
def test_against_the_textbook(counts: list[int]) -> None:
    curve = mefmax_curve(counts)
    assert curve.ks.tolist() == list(range(1, textbook.most_classes(counts) + 1))
    for k, between, within in zip(curve.ks.tolist(), curve.between, curve.within, strict=True):
        ends = textbook.boundaries(counts, k)
        assert boundaries(counts, k) == ends
        assert (between, within) == pytest.approx(textbook.terms(counts, ends), abs=1e-12)
    found = mefmax(counts)
    assert found.count == curve.best == textbook.chosen(counts)
    assert found.order.tolist() == textbook.ranked(counts)


def test_counts_of_a_corpus_of_a_quadrillion_tokens_are_exact() -> None:
    # K times the total leaves 64 bits; one occurrence more of a rare token ends the first two classes later.
    counts = [10**12] * 6000
    assert mefmax(counts, most=3).boundaries == (3000, 6000)
    assert boundaries(counts, 6000) == list(range(1, 6001))
    counts.append(1)
    assert boundaries(counts, 3) == [2001, 4001, 6001] == textbook.boundaries(counts, 3)


def test_by_hand() -> None:
    # Of 8: ends at 4 and 8, where the sums are 4 and 8. Both classes even, tokens even: the largest value there is.
    assert mefmax([1] * 8).boundaries == (4, 8)
    assert mefmax([9, 1]).boundaries == (2,)  # nothing but one class is possible
    assert mefmax([5]).boundaries == (1,)
    found = mefmax([0, 3, 0, 3, 3, 3])
    assert (found.order.tolist(), found.boundaries) == ([1, 3, 4, 5, 0, 2], (2, 6))
    assert found.token_class.tolist() == [1, 0, 1, 0, 1, 1]  # never seen: last class


def test_zipf_mandelbrot() -> None:
    """The choice stated for an array that is made here: 23 of 34."""
    ranks = np.arange(1, 30001)
    weights = 1 / (ranks + 5.0) ** 1.1
    curve = mefmax_curve(np.round(1e8 * weights / weights.sum()).astype(np.int64))
    assert (curve.best, len(curve.ks)) == (23, 34)


def test_most_is_a_cap_on_k() -> None:
    counts = np.full(3000, 7)
    capped, free = mefmax_curve(counts, most=10), mefmax_curve(counts, most=None)
    assert (len(capped.ks), len(mefmax_curve(counts).ks), len(free.ks)) == (10, 512, 3000)
    np.testing.assert_array_equal(free.values[:10], capped.values)  # also where it is worked on in parts
    assert free.best == 2
    with pytest.raises(ValueError, match=r"mefmax:.*\(0 given"):
        mefmax(counts, most=0)


def test_evenness_of_classes_from_anywhere() -> None:
    counts = [6, 6, 6, 5, 5, 5, 5, 2, 2, 2, 1, 1]
    classes = FrequencyClasses.of(counts, [1, 5, 12])
    assert evenness(counts, classes) == pytest.approx(textbook.terms(counts, [1, 5, 12]), abs=1e-12)


@pytest.mark.parametrize("counts", [[], [0, 0], [3, -1], [[1], [2]], [1.5]])
def test_no_counts(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="counts must"):
        mefmax(counts)
    with pytest.raises(ValueError, match="counts must"):
        mefmax_curve(counts)
