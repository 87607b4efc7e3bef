"""Weights of matches: the best ones by another optimiser, rows that add up to one, files that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from nextword.retrieval.ngram import Found, MatchWeights, fit_match_weights
from nextword.retrieval.ngram.levels import PRIOR, best_mixture
from tests.helpers.stored_texts import EVIDENCE, LENGTHS, LIMIT, weights


def made_up(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Found]:
    """A head's log-probabilities, levels' probabilities, and levels of which some are lacking."""
    random = np.random.default_rng(seed)
    length = random.integers(0, 6, count)
    counts = np.where(length[:, None] > 0, random.integers(0, 3, (count, len(EVIDENCE))), 0)
    levels = np.where(counts > 0, random.random(counts.shape) * (random.random(counts.shape) < 0.5), 0.0)
    nothing = np.zeros_like(counts)
    return np.log(random.random(count)), levels, Found(length, nothing, nothing, counts)


def objective(weights: np.ndarray, parts: np.ndarray, prior: np.ndarray) -> float:
    return float(np.log(parts @ weights).sum() + PRIOR * (prior * np.log(weights)).sum())


def test_the_best_mixture_is_that_of_another_optimiser() -> None:
    random = np.random.default_rng(1)
    parts, prior = random.random((300, 3)) ** 3, np.array([0.5, 0.2, 0.3])
    found = best_mixture(parts, prior)

    def loss(free: np.ndarray) -> float:
        shares = np.exp(free - free.max())
        return -objective(shares / shares.sum(), parts, prior)

    rival = minimize(loss, np.zeros(3), tol=1e-12)
    assert objective(found, parts, prior) == pytest.approx(-rival.fun, abs=1e-7)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert objective(found, parts, prior) > objective(prior, parts, prior)


def test_fitted_weights_are_the_best_of_each_length() -> None:
    log_head, levels, found = made_up(2000)
    fitted = fit_match_weights(log_head, levels, found, evidence=EVIDENCE, limit=LIMIT, lengths=LENGTHS)
    head = np.exp(log_head)[:, None]
    parts = np.concatenate([head, np.where(found.counts > 0, levels, head)], 1)
    pooled = best_mixture(parts[found.length > 0], np.full(4, 0.25))
    for number, (low, high) in enumerate([(1, 2), (2, 4), (4, 99)]):
        chosen = (found.length >= low) & (found.length < high)
        assert fitted.shares[number] == pytest.approx(best_mixture(parts[chosen], pooled).tolist(), abs=1e-6)
    likelihood = np.log((fitted.at(found) * parts).sum(1)).sum()
    assert likelihood > log_head.sum()
    assert fitted.tokens == 2000
    again = fit_match_weights(log_head, levels, found, evidence=EVIDENCE, limit=LIMIT, lengths=LENGTHS)
    assert again == fitted


def test_lengths_that_never_occur_get_the_weights_of_all() -> None:
    log_head, levels, found = made_up(500)
    fitted = fit_match_weights(log_head, levels, found, evidence=EVIDENCE, limit=LIMIT, lengths=(1, 100))
    pooled = fit_match_weights(log_head, levels, found, evidence=EVIDENCE, limit=LIMIT, lengths=(1, 99))
    assert fitted.shares[1] == pooled.shares[1]
    assert fitted.shares[1] != fitted.shares[0]  # the prior agrees with them once more


def test_rows_add_up_and_what_is_lacking_is_the_heads() -> None:
    made = weights()
    _, _, found = made_up(300, seed=4)
    shares = made.at(found)
    assert abs(shares.sum(1) - 1).max() < 1e-15
    assert (shares[:, 1:][found.counts == 0] == 0).all()
    assert (shares[found.length == 0] == [1, 0, 0, 0]).all()
    complete = (found.counts > 0).all(1) & (found.length >= 4)
    assert complete.any()
    assert (abs(shares[complete] - made.shares[2]) < 1e-15).all()


def test_weights_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = weights()
    made.save(tmp_path / "weights.json")
    assert MatchWeights.load(tmp_path / "weights.json") == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evidence": (2, 4, 8)}, r"evidence: must rise from 1 \(\[2, 4, 8\] given\)"),
        ({"lengths": (1, 4, 4)}, "lengths: must rise from 1"),
        ({"limit": 4}, r"limit: must be at least 5, the minimum count of the last level \(4 given\)"),
        ({"shares": [[1.0, 0, 0, 0]]}, "shares: must be 3 rows of 4 numbers"),
        ({"shares": [[0.5, 0.5, 0.5, 0.0]] * 3}, "shares: must be at least 0 and add up to 1"),
        ({"shares": [[1.5, -0.5, 0.0, 0.0]] * 3}, "shares: must be at least 0 and add up to 1"),
        ({"shares": [[0.0, 1.0, 0.0, 0.0]] * 3}, "shares: must be above 0 for the head"),
    ],
)
def test_weights_that_make_no_distribution_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MatchWeights(**weights().model_dump() | changes)


def test_a_text_that_says_nothing_is_refused() -> None:
    log_head, levels, found = made_up(3)
    nothing = Found(*(part[:0] for part in (found.length, found.low, found.low, found.high)))
    with pytest.raises(ValueError, match=r"data:.*fit weights"):
        fit_match_weights(log_head[:0], levels[:0], nothing, evidence=EVIDENCE)
    log_head[1] = -np.inf
    with pytest.raises(ValueError, match=r"data:.*\(token 1"):
        fit_match_weights(log_head, levels, found, evidence=EVIDENCE)
