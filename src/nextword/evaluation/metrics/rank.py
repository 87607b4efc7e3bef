"""Numerical rank and spectrum of a matrix of log-probabilities.

For a softmax over D-dimensional states, log P = H E^T - (a constant per row) has rank at most D + 1 (Yang et al., 2018,
say D; the row constants add one). A distribution that breaks this bound can express more contexts.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

GRAM_ABOVE = 50_000_000
"""Entries from which the smaller Gram matrix is used: an SVD of a 4,750 x 50,257 matrix takes minutes."""


def singular_values(matrix: Float[np.ndarray, "N V"]) -> Float[np.ndarray, "K"]:
    """Singular values, largest first, in float64.

    Above ``GRAM_ABOVE`` entries they come from the Gram matrix: exact to about 1e-8 of the largest, far below any
    tolerance used here (the smallest is 1e-7 of it, times the side of the matrix).

    Raises:
        ValueError: An entry is not finite, e.g. the logarithm of a probability of 0.
    """
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"rank: must be of a matrix with rows and columns (shape {matrix.shape} given)")
    if not np.isfinite(matrix).all():
        bad = int((~np.isfinite(matrix)).any(axis=1).sum())
        raise ValueError(f"rank: {bad} of {len(matrix)} rows are not finite; log-probabilities of 0 have no rank")
    exact = matrix.astype(np.float64)
    if exact.size <= GRAM_ABOVE:
        values: Float[np.ndarray, "K"] = np.linalg.svd(exact, compute_uv=False)
        return values
    gram = exact @ exact.T if len(exact) <= exact.shape[1] else exact.T @ exact
    squares = np.clip(np.linalg.eigvalsh(gram)[::-1], 0.0, None)
    roots: Float[np.ndarray, "K"] = np.sqrt(squares)
    return roots


def float32_tolerance(rows: int, columns: int) -> float:
    """Relative tolerance that numpy and torch use for the rank of a float32 matrix: max(rows, columns) * eps.

    >>> round(float32_tolerance(4750, 50257), 4)
    0.006
    """
    return max(rows, columns) * float(np.finfo(np.float32).eps)


def numerical_rank(values: Float[np.ndarray, "K"], relative_tolerance: float) -> int:
    """How many singular values are above ``relative_tolerance`` times the largest one.

    >>> numerical_rank(np.array([10.0, 1.0, 0.001]), 1e-3)
    2
    """
    return int((values > relative_tolerance * values[0]).sum())


def relative_spectrum(values: Float[np.ndarray, "K"], length: int) -> list[float]:
    """The first ``length`` singular values divided by the largest one.

    >>> relative_spectrum(np.array([10.0, 1.0, 0.5]), 2)
    [1.0, 0.1]
    """
    if values[0] == 0:
        raise ValueError("spectrum: the matrix is all zero, so no value can be taken relative to the largest")
    return [float(value) for value in values[:length] / values[0]]
