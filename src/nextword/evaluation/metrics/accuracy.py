"""Acc@k (two correct tokens), next-token accuracy and hits@k, and the numerical rank of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import (
    Metric,
    MetricConfig,
    NumbersConfig,
    Score,
    Setup,
    UndefinedError,
    registry,
)
from nextword.evaluation.metrics.sample import AllOrNone, Sample
from nextword.evaluation.metrics.tokens import as_ids


def hits_at_k(ranked: Int[np.ndarray, "N K"], wanted: Int[np.ndarray, "N 2"], k: int) -> Bool[np.ndarray, "N"]:
    """For each of N prompts, whether **both** correct tokens are among the top ``k`` predictions, (N,).

    Two tokens cannot both be first, so for k = 1 the test is whether the most probable token is one of the two.

    Each row of ``ranked`` (N, K) has token ids, the most probable first, and -1 for "no prediction". Each row of
    ``wanted`` (N, 2) has the two correct ids.

    Source: HistAlign (Wan et al., 2023), section 5.3, for k >= 2.

    >>> hits_at_k(np.array([[7, 3, 5], [7, 5, 3]]), np.array([[3, 7], [3, 7]]), 2).tolist()
    [True, False]
    >>> hits_at_k(np.array([[7, 3, 5], [5, 7, 3]]), np.array([[3, 7], [3, 7]]), 1).tolist()
    [True, False]
    """
    if k < 1:
        raise ValueError(f"acc@k: k must be at least 1 ({k} given)")
    if wanted.shape != (len(ranked), 2):
        raise ValueError(f"acc@k: wanted must be of shape ({len(ranked)}, 2) (shape {wanted.shape} given)")
    found = (ranked[:, None, :k] == wanted[:, :, None]).any(axis=-1)
    hits: Bool[np.ndarray, "N"] = found.any(axis=1) if k == 1 else found.all(axis=1)
    return hits


def acc_at_k(ranked: Int[np.ndarray, "N K"], wanted: Int[np.ndarray, "N 2"], k: int) -> float:
    """Share of the N prompts for which ``hits_at_k`` is true.

    >>> acc_at_k(np.array([[7, 3, 5], [7, 5, 3]]), np.array([[3, 7], [3, 7]]), 2)
    0.5
    """
    if len(ranked) == 0:
        raise ValueError("acc@k: no rows")
    return float(hits_at_k(ranked, wanted, k).mean())


USUAL = (1, 2, 5, 10, 25)


class AccConfig(NumbersConfig):
    """Settings of Acc@k."""

    numbers = meaning = "k"

    k: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(default=None, min_length=1)
    """Numbers k of top predictions; none: 1, 2, 5, 10 and 25, as far as the first sample has enough predictions."""


@registry.register("acc")
class Acc(Metric):
    """Acc@k: share of prompts with both correct tokens in the top k (k = 1: either one). Example: ``acc:1,2,5``."""

    Config = AccConfig
    needs = ("ranked_token_ids", "right_token_ids")
    group, goal, decimals = metric.NEXT_WORD, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._k: tuple[int, ...] | None = self.config.k
        self._ranked: list[Sequence[int]] = []
        self._right: list[Sequence[int]] = []

    def add(self, sample: Sample) -> None:
        """Read the predictions and the two correct tokens of one prompt."""
        ranked, right = sample.need("ranked_token_ids", "acc"), sample.need("right_token_ids", "acc")
        if self._k is None:
            self._k = tuple(k for k in USUAL if k <= len(ranked)) or USUAL[:1]
        most = max(self._k)
        if len(ranked) < most:
            raise ValueError(
                f"{sample.place}: ranked_token_ids must have at least {most} entries for Acc@{most} ({len(ranked)} "
                "given); use a smaller k, or pad with -1"
            )
        if len(set(right)) != 2 or len(right) != 2:
            raise ValueError(f"{sample.place}: right_token_ids must be two different tokens ({right} given)")
        self._ranked.append(ranked[:most])
        self._right.append(right)

    def result(self) -> dict[str, Score]:
        """The scores, with the key ``acc@k`` for every k."""
        if not self._ranked or self._k is None:
            raise UndefinedError("Acc@k: no prompt")
        ranked, right = np.array(self._ranked, dtype=np.int64), np.array(self._right, dtype=np.int64)
        found = {}
        for k in self._k:
            both = f"both correct next tokens are among the {k} most probable"
            meaning = f"Acc@{k}: prompts of which {both if k > 1 else 'the most probable token is correct'}."
            hits = hits_at_k(ranked, right, k).astype(np.float64)
            found[f"acc@{k}"] = Score.mean(self.measure(f"Acc@{k}", "fraction of prompts", meaning), hits)
        return found


# -- Accuracy and hits@k of the next token, given all correct tokens before it.


def among_first(ranks: Sequence[int] | Int[np.ndarray, "T"], k: int) -> Bool[np.ndarray, "T"]:
    """For each target token, whether fewer than ``k`` tokens are more probable. Equally probable tokens do not count.

    ``ranks`` has, for each target, the number of tokens that are more probable. For k = 1, the share of true entries in
    the result is the accuracy.

    Source: acc and hits@10 of the code of Neural text generation with unlikelihood training (Welleck et al., 2020).

    >>> among_first([0, 3, 0, 12], 1).tolist(), among_first([0, 3, 0, 12], 10).tolist()
    ([True, False, True, False], [True, True, True, False])
    """
    if k < 1:
        raise ValueError(f"hits@k: k must be at least 1 ({k} given)")
    found: Bool[np.ndarray, "T"] = np.asarray(ranks) < k
    return found


class AccuracyConfig(MetricConfig):
    """Settings of accuracy."""

    k: int = Field(default=10, ge=1)
    """Number k of most probable tokens for hits@k."""


@registry.register("accuracy")
class Accuracy(Metric):
    """Accuracy and hits@k: share of held-out tokens predicted first, or among the top k. Example: ``accuracy``."""

    Config = AccuracyConfig
    needs = ("target_token_ids", "predictions")
    scores_people = False
    group, goal, decimals = metric.NEXT_WORD, "higher", 2

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._right: list[int] = []
        self._hits: list[int] = []
        self._tokens: list[int] = []
        self._ranks_given = AllOrNone("target_ranks")

    def add(self, sample: Sample) -> None:
        """Read the ranks of the targets or, if the sample has no ranks, the targets and the most probable tokens."""
        if self._ranks_given.has(sample, sample.target_ranks is not None):
            ranks = as_ids(sample.need("target_ranks", "accuracy"))
            if len(ranks) and ranks.min() < 0:
                raise ValueError(f"{sample.place}: target_ranks must be 0 or more ({ranks.min()} given)")
            self._hits.append(int(among_first(ranks, self.config.k).sum()))
            right = among_first(ranks, 1)
        else:
            predicted = as_ids(sample.need("predicted_token_ids", "accuracy (or 'target_ranks')"))
            right = predicted == as_ids(sample.need("target_token_ids", "accuracy"))
        self._right.append(int(right.sum()))
        self._tokens.append(len(right))

    def result(self) -> dict[str, Score]:
        """The score ``accuracy`` and, if the samples have ``target_ranks``, the score ``hits@k``."""
        k = self.config.k
        ties = "ties count as correct" if self._hits else "among tied tokens, the predicted one counts"
        found = {
            "accuracy": self._score(
                "accuracy", f"Accuracy: share of held-out tokens predicted first; {ties}.", self._right
            )
        }
        if self._hits:
            meaning = f"hits@{k}: share of held-out tokens with fewer than {k} more probable tokens."
            found[f"hits@{k}"] = self._score(f"hits@{k}", meaning, self._hits)
        return found

    def _score(self, title: str, meaning: str, right: list[int]) -> Score:
        return Score.ratio(self.measure(title, "fraction of target tokens", meaning), right, self._tokens)


# -- Numerical rank and spectrum of a matrix of log-probabilities.
#
# For a softmax over D-dimensional states, log P = H E^T - (a constant per row) has rank at most D + 1. (Yang et al.,
# 2018, give D; the row constants add 1.) A distribution with a higher rank can express more contexts.

GRAM_ABOVE = 50_000_000
"""If a matrix has more entries than this, its Gram matrix is used: an SVD of a 4,750 x 50,257 matrix takes minutes."""


def singular_values(matrix: Float[np.ndarray, "N V"]) -> Float[np.ndarray, "K"]:
    """Singular values of an (N, V) matrix, largest first, in float64.

    If a matrix has more than ``GRAM_ABOVE`` entries, the values are computed from its Gram matrix, with an error of
    about 1e-8 of the largest value. A tolerance for ``numerical_rank`` must be above this error, as
    ``float32_tolerance`` is: about 1e-7 times the longer side of the matrix.

    Raises:
        ValueError: If an entry is not finite, e.g. the logarithm of a probability of 0.
    """
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"rank: must be of a matrix with rows and columns (shape {matrix.shape} given)")
    if not np.isfinite(matrix).all():
        bad = int((~np.isfinite(matrix)).any(axis=1).sum())
        raise ValueError(f"rank: {bad} of {len(matrix)} rows are not finite; leave out rows with a probability of 0")
    exact = matrix.astype(np.float64)
    if exact.size <= GRAM_ABOVE:
        values: Float[np.ndarray, "K"] = np.linalg.svd(exact, compute_uv=False)
        return values
    gram = exact @ exact.T if len(exact) <= exact.shape[1] else exact.T @ exact
    squares = np.clip(np.linalg.eigvalsh(gram)[::-1], 0.0, None)
    roots: Float[np.ndarray, "K"] = np.sqrt(squares)
    return roots


def float32_tolerance(rows: int, columns: int) -> float:
    """The relative tolerance with which numpy and torch compute a float32 matrix's rank: max(rows, columns) * eps.

    >>> round(float32_tolerance(4750, 50257), 4)
    0.006
    """
    return max(rows, columns) * float(np.finfo(np.float32).eps)


def numerical_rank(values: Float[np.ndarray, "K"], relative_tolerance: float) -> int:
    """Number of singular ``values`` (largest first) above ``relative_tolerance`` times the largest one.

    >>> numerical_rank(np.array([10.0, 1.0, 0.001]), 1e-3)
    2
    """
    return int((values > relative_tolerance * values[0]).sum())


def relative_spectrum(values: Float[np.ndarray, "K"], length: int) -> list[float]:
    """The first ``length`` singular ``values`` (largest first), divided by the largest one.

    >>> relative_spectrum(np.array([10.0, 1.0, 0.5]), 2)
    [1.0, 0.1]
    """
    if values[0] == 0:
        raise ValueError(
            "spectrum: the matrix must not be all zero, because values are relative to the largest singular value"
        )
    return [float(value) for value in values[:length] / values[0]]
