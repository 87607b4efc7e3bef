from __future__ import annotations

import numpy as np
import pytest

from nextword.evaluation.metrics import accuracy
from nextword.evaluation.metrics.accuracy import float32_tolerance, numerical_rank, relative_spectrum, singular_values


def test_known_rank_against_numpy() -> None:
    rng = np.random.default_rng(0)
    matrix = (rng.normal(size=(60, 5)) @ rng.normal(size=(5, 40))).astype(np.float32)
    values = singular_values(matrix)
    tolerance = float32_tolerance(60, 40)
    assert numerical_rank(values, tolerance) == 5 == np.linalg.matrix_rank(matrix)
    assert values.dtype == np.float64


def test_chosen_spectrum_comes_back() -> None:
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.normal(size=(n, 4)))[0] for n in (30, 20))
    matrix = left @ np.diag([8.0, 4.0, 2.0, 0.004]) @ right.T
    values = singular_values(matrix)
    assert values[:4] == pytest.approx([8, 4, 2, 0.004])
    assert relative_spectrum(values, 3) == pytest.approx([1, 0.5, 0.25])
    assert numerical_rank(values, 1e-3) == 3
    assert numerical_rank(values, 1e-4) == 4


@pytest.mark.parametrize("shape", [(50, 20), (20, 50)])
def test_gram_matrix_gives_the_same(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.random.default_rng(2).normal(size=shape)
    expected = singular_values(matrix)
    monkeypatch.setattr(accuracy, "GRAM_ABOVE", 0)
    assert singular_values(matrix) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("transposed", [False, True])
def test_gram_matrix_keeps_small_singular_values(transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far below 1, and far below the largest; what is 0 stays below the smallest tolerance in use."""
    monkeypatch.setattr(accuracy, "GRAM_ABOVE", 0)
    rng = np.random.default_rng(4)
    left, right = (np.linalg.qr(rng.normal(size=(n, 5)))[0] for n in (30, 200))
    wanted = np.array([40.0, 2.0, 0.5, 0.02, 4e-4])
    matrix = left @ np.diag(wanted) @ right.T
    values = singular_values(matrix.T if transposed else matrix)
    assert values[:5] == pytest.approx(wanted, rel=1e-4)
    assert values[5:].max() < 1e-7 * wanted[0]
    assert numerical_rank(values, 1e-6) == 5


def test_softmax_breaks_at_width_plus_one() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(80, 6)) @ rng.normal(size=(6, 50))
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert numerical_rank(singular_values(log_probs), 1e-6) == 7


def test_errors() -> None:
    with pytest.raises(ValueError, match="1 of 2 rows"):
        singular_values(np.array([[0.0, -np.inf], [1.0, 2.0]]))
    with pytest.raises(ValueError, match=r"shape .* given"):
        singular_values(np.empty((0, 3)))
    with pytest.raises(ValueError, match="all zero"):
        relative_spectrum(np.zeros(3), 2)
