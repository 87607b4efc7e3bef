"""Acc@k of a prompt with two right next words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Int
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
from nextword.evaluation.metrics.sample import Sample


def hits_at_k(ranked: Int[np.ndarray, "N K"], wanted: Int[np.ndarray, "N 2"], k: int) -> Bool[np.ndarray, "N"]:
    """Whether **both** wanted words are among the first ``k`` predictions; for k = 1, whether the first is one of them.

    Two words cannot both be first, so Acc@1 asks the weaker question: does the single guess name a right word?

    ``ranked`` has token ids, most probable first, and -1 for "no prediction" (a distribution with fewer than K words).

    Source: HistAlign (Wan et al., 2023), section 5.3, for k >= 2.

    >>> hits_at_k(np.array([[7, 3, 5], [7, 5, 3]]), np.array([[3, 7], [3, 7]]), 2).tolist()
    [True, False]
    >>> hits_at_k(np.array([[7, 3, 5], [5, 7, 3]]), np.array([[3, 7], [3, 7]]), 1).tolist()
    [True, False]
    """
    if k < 1:
        raise ValueError(f"acc@k: k must be at least 1 ({k} given)")
    if wanted.shape != (len(ranked), 2):
        raise ValueError(f"acc@k: wanted must be ({len(ranked)}, 2), two a row (shape {wanted.shape} given)")
    found = (ranked[:, None, :k] == wanted[:, :, None]).any(axis=-1)
    hits: Bool[np.ndarray, "N"] = found.any(axis=1) if k == 1 else found.all(axis=1)
    return hits


def acc_at_k(ranked: Int[np.ndarray, "N K"], wanted: Int[np.ndarray, "N 2"], k: int) -> float:
    """Share of rows that are a hit, see ``hits_at_k``.

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
    """How many of the first predictions are looked at; none: those of 1, 2, 5, 10 and 25 that the first sample has."""


@registry.register("acc")
class Acc(Metric):
    """Acc@k: prompts whose two right next words are both among the first k predictions. Example: ``acc:1,2,5``."""

    Config = AccConfig
    needs = ("ranked_token_ids", "right_token_ids")
    group, goal, decimals = metric.NEXT_WORD, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._k: tuple[int, ...] | None = self.config.k
        self._ranked: list[Sequence[int]] = []
        self._right: list[Sequence[int]] = []

    def add(self, sample: Sample) -> None:
        """Reads the predictions of one prompt."""
        ranked, right = sample.need("ranked_token_ids", "acc"), sample.need("right_token_ids", "acc")
        if self._k is None:
            self._k = tuple(k for k in USUAL if k <= len(ranked)) or USUAL[:1]
        most = max(self._k)
        if len(ranked) < most:
            raise ValueError(
                f"{sample.place}: ranked_token_ids has {len(ranked)} entries, Acc@{most} looks at {most}; ask for "
                "smaller k, or fill up with -1 where there are no more predictions"
            )
        if len(set(right)) != 2 or len(right) != 2:
            raise ValueError(f"{sample.place}: right_token_ids must be two different tokens ({right} given)")
        self._ranked.append(ranked[:most])
        self._right.append(right)

    def result(self) -> dict[str, Score]:
        """``acc@k`` for every k."""
        if not self._ranked or self._k is None:
            raise UndefinedError("Acc@k: no prompt")
        ranked, right = np.array(self._ranked, dtype=np.int64), np.array(self._right, dtype=np.int64)
        found = {}
        for k in self._k:
            both = f"both right next tokens are among the {k} most probable"
            meaning = f"Acc@{k}: prompts of which {both if k > 1 else 'the most probable token is right'}."
            hits = hits_at_k(ranked, right, k).astype(np.float64)
            found[f"acc@{k}"] = Score.mean(self.measure(f"Acc@{k}", "fraction of prompts", meaning), hits)
        return found
