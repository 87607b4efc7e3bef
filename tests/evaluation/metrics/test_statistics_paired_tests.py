from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nextword.evaluation.metrics.statistics import Statistic, holm, paired_tests


def means(seed: int, n: int, shift: float) -> tuple[Statistic, Statistic]:
    rng = np.random.default_rng(seed)
    first = rng.normal(size=n)
    return Statistic.mean(first + shift), Statistic.mean(first + rng.normal(scale=0.5, size=n))


@pytest.mark.parametrize(("n", "shift"), [(10, 0.3), (10, 0.0), (60, 0.1), (60, 0.3)])
def test_permutation_against_scipy(n: int, shift: float) -> None:
    first, second = means(n, n, shift)
    (test,) = paired_tests([first], [second], permutations=100_000)
    theirs = stats.permutation_test(
        (first.parts[:, 0], second.parts[:, 0]),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=100_000,
        batch=5000,
        rng=3,
    )
    assert test is not None
    assert test.difference == pytest.approx(theirs.statistic, abs=1e-12)
    exact = 2**n <= 100_000
    assert test.p_permutation == pytest.approx(theirs.pvalue, abs=1e-12 if exact else 0.01)


def test_bootstrap_of_a_ratio_against_scipy() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(5, 50, size=80).astype(float)
    a, b = counts * rng.normal(3.1, 0.5, 80), counts * rng.normal(3.0, 0.5, 80)

    def difference(x: np.ndarray, y: np.ndarray, n: np.ndarray, axis: int = -1) -> np.ndarray:
        return x.sum(axis) / n.sum(axis) - y.sum(axis) / n.sum(axis)

    theirs = stats.bootstrap((a, b, counts), difference, paired=True, method="percentile", n_resamples=8000, rng=1)
    (test,) = paired_tests([Statistic.ratio(a, counts)], [Statistic.ratio(b, counts)], resamples=8000)
    assert test is not None
    assert test.interval == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)
    below = (theirs.bootstrap_distribution <= 0).mean()
    assert test.p_bootstrap == pytest.approx(2 * min(below, 1 - below), abs=0.02)


def test_false_alarms_are_as_many_as_promised() -> None:
    alarms = np.array([0.0, 0.0])
    for seed in range(300):
        rng = np.random.default_rng(seed)
        common = rng.normal(size=40)
        first, second = (Statistic.mean(common + rng.normal(size=40)) for _ in range(2))
        (test,) = paired_tests([first], [second], resamples=400, permutations=400, seed=seed)
        assert test is not None
        alarms += [test.p_bootstrap < 0.05, test.p_permutation < 0.05]
    # 5 % of 300 is 15; three standard deviations are 11
    assert (alarms >= 4).all()
    assert (alarms <= 28).all()


def test_alike_systems_do_not_differ() -> None:
    first, _ = means(0, 30, 0.0)
    (test,) = paired_tests([first], [first])
    assert test is not None
    assert (test.difference, test.interval, test.p_bootstrap, test.p_permutation) == (0.0, (0.0, 0.0), 1.0, 1.0)


def test_swapping_the_systems_turns_the_sign() -> None:
    first, second = means(4, 25, 0.2)
    (there,), (back,) = paired_tests([first], [second]), paired_tests([second], [first])
    assert there is not None
    assert back is not None
    assert there.interval is not None
    assert back.interval == pytest.approx((-there.interval[1], -there.interval[0]))
    assert (back.difference, back.p_permutation) == (-there.difference, there.p_permutation)


def test_what_cannot_be_tested() -> None:
    one, other = means(0, 1, 0.0)
    assert paired_tests([one], [other]) == [None]
    assert paired_tests([], []) == []
    rare = Statistic.ratio(np.eye(6)[0], np.eye(6)[0])  # most draws leave it without a value
    assert paired_tests([rare], [rare]) == [None]
    with pytest.raises(ValueError, match="6 samples against 5"):
        paired_tests([means(0, 6, 0.0)[0]], [means(0, 5, 0.0)[0]])


def test_holm_against_its_definition() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 7):
        p = rng.random(size) * 0.1
        order = np.sort(p)
        expected = [max(min(1.0, (size - k) * order[k]) for k in range(list(order).index(x) + 1)) for x in p]
        assert holm(list(p)) == pytest.approx(expected, abs=1e-15)
    assert holm([]) == []
    assert holm([0.5, 0.9, 0.9]) == [1.0, 1.0, 1.0]
