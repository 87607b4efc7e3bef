"""Latent Dirichlet allocation: topics of documents, by batch variational Bayes over many documents at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float, Int

DOCUMENTS = 32
"""Documents that are computed together: what they read of the topics still fits a core's cache."""
WIDTH = 16
"""Documents are filled up to a multiple of so many words. What a document's topics are, to the last digit, then depends
on no other document: equal texts have equal topics."""
STEPS = 100
"""Steps of a document at most."""
SMALLEST_CHANGE = 1e-3
"""A document is done once its topics change less, on average, in one step."""

_TINY = np.finfo(np.float64).eps


class LatentDirichletAllocation:
    """Topics as distributions over words, and documents as mixtures of them, fitted to counts of words.

    With symmetric priors 1 / K. Every pass updates each document's topics gamma with the topics' words lambda fixed,
    and then lambda:

        phi_dw = sum_k exp(E[log theta_dk]) exp(E[log beta_kw])
        gamma_dk = 1 / K + exp(E[log theta_dk]) sum_w n_dw / phi_dw exp(E[log beta_kw])
        lambda_kw = 1 / K + exp(E[log beta_kw]) sum_d n_dw / phi_dw exp(E[log theta_dk])

    Source: Blei et al. (2003); Hoffman et al. (2010), algorithm 1. It draws the random numbers of scikit-learn's class
    of this name and stops where that does, so that both give the same topics but for the accuracy of its digamma
    function (1e-9). That class takes documents one by one, in Python, and ends with a perplexity that nobody asks for.

    Args:
        counts: How often each word is in each document, a sparse (N, V) matrix of SciPy in rows (CSR).
        topics: How many there are, K.
        seed: Of the random start.
        passes: Over the documents.
        jobs: Threads; the topics do not depend on their number.
    """

    def __init__(self, counts: Any, topics: int, seed: int = 0, passes: int = 10, jobs: int = 1) -> None:
        random = np.random.RandomState(seed)
        documents, words = counts.shape
        self._prior, self._jobs = 1 / topics, jobs
        self._words: Float[np.ndarray, "V K"] = np.ascontiguousarray(random.gamma(100.0, 0.01, (topics, words)).T)
        for _ in range(passes):
            likely = _exp_expected_log(self._words, axis=0)
            start = random.gamma(100.0, 0.01, (documents, topics))
            _, theta, ratios = self._documents(counts, likely, start)
            self._words = self._prior + likely * (ratios.T @ theta)

    def shares(self, counts: Any) -> Float[np.ndarray, "N K"]:
        """The topics of documents as distributions; the uniform one for a document without words."""
        start = np.ones((counts.shape[0], self._words.shape[1]))
        gamma, _, _ = self._documents(counts, _exp_expected_log(self._words, axis=0), start)
        found: Float[np.ndarray, "N K"] = gamma / gamma.sum(axis=1, keepdims=True)
        return found

    def _documents(
        self, counts: Any, likely: Float[np.ndarray, "V K"], gamma: Float[np.ndarray, "N K"]
    ) -> tuple[Float[np.ndarray, "N K"], Float[np.ndarray, "N K"], Any]:
        """For topics that are fixed: gamma, exp(E[log theta]) and, in a matrix like ``counts``, n / phi."""
        from scipy.sparse import csr_array

        gamma, theta = gamma.copy(), _exp_expected_log(gamma)
        ratios = np.zeros(counts.nnz)
        words = np.vstack([likely, np.zeros_like(likely[:1])])  # the last row fills up documents with fewer words
        lengths = np.diff(counts.indptr)
        widths = -(-lengths // WIDTH) * WIDTH

        def settle(batch: Int[np.ndarray, "B"]) -> None:
            column = np.arange(widths[batch[0]])
            real = column < lengths[batch, None]
            places = np.where(real, counts.indptr[batch, None] + column, -1)
            own = words[np.where(real, counts.indices[places], len(likely))]
            number = np.where(real, counts.data[places], 0.0)
            gamma[batch], theta[batch] = _settled(number, own, gamma[batch], theta[batch], self._prior)
            ratios[places[real]] = (number / _phi(own, theta[batch]))[real]

        alike = [np.flatnonzero(widths == width) for width in np.unique(widths)]
        batches = [some[start : start + DOCUMENTS] for some in alike for start in range(0, len(some), DOCUMENTS)]
        if self._jobs == 1:
            for batch in batches:
                settle(batch)
        else:
            with ThreadPoolExecutor(self._jobs) as pool:
                list(pool.map(settle, batches))
        return gamma, theta, csr_array((ratios, counts.indices, counts.indptr), shape=counts.shape)


def _settled(
    number: Float[np.ndarray, "B W"],
    words: Float[np.ndarray, "B W K"],
    gamma: Float[np.ndarray, "B K"],
    theta: Float[np.ndarray, "B K"],
    prior: float,
) -> tuple[Float[np.ndarray, "B K"], Float[np.ndarray, "B K"]]:
    """Topics of documents that are updated until each has settled; one that has is not touched again."""
    settled, settled_theta = gamma.copy(), theta.copy()
    rows, moving = np.arange(len(gamma)), np.ones(len(gamma), dtype=bool)
    for step in range(STEPS):
        last, gamma = gamma, prior + theta * ((number / _phi(words, theta))[:, None, :] @ words)[:, 0]
        theta = _exp_expected_log(gamma)
        change = np.abs(gamma - last).sum(axis=1)
        ready = moving & (change < SMALLEST_CHANGE * gamma.shape[1]) if step < STEPS - 1 else moving
        if not ready.any():
            continue
        settled[rows[ready]], settled_theta[rows[ready]] = gamma[ready], theta[ready]
        moving = moving & ~ready
        if 2 * moving.sum() <= len(moving):  # not at once, since it copies
            number, words, gamma, theta, rows = (one[moving] for one in (number, words, gamma, theta, rows))
            moving = moving[moving]
        if not len(moving):
            break
    return settled, settled_theta


def _phi(words: Float[np.ndarray, "B W K"], theta: Float[np.ndarray, "B K"]) -> Float[np.ndarray, "B W"]:
    found: Float[np.ndarray, "B W"] = (words @ theta[:, :, None])[:, :, 0] + _TINY
    return found


def _exp_expected_log(alpha: Float[np.ndarray, "N K"], axis: int = 1) -> Float[np.ndarray, "N K"]:
    """``exp(E[log p])`` of Dirichlet distributions whose parameters lie along an axis."""
    from scipy.special import psi

    expected: Float[np.ndarray, "N K"] = np.exp(psi(alpha) - psi(alpha.sum(axis=axis, keepdims=True)))
    return expected
