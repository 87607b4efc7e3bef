"""Accuracy and hits@k of the next token, given all right tokens before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, registry
from nextword.evaluation.metrics.sample import AllOrNone, Sample
from nextword.evaluation.metrics.tokens import as_ids


def among_first(ranks: Sequence[int] | Int[np.ndarray, "T"], k: int) -> Bool[np.ndarray, "T"]:
    """Whether fewer than ``k`` tokens are more probable than each target, so that ties count as right.

    Source: acc and hits@10 of the code of Neural text generation with unlikelihood training (Welleck et al., 2020).

    For k = 1, this is accuracy.

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
    """How many of the most probable tokens hits@k looks at."""


@registry.register("accuracy")
class Accuracy(Metric):
    """Accuracy: held-out tokens that are predicted first; hits@k: among the first k. Example: ``accuracy``."""

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
        """Reads the ranks of the targets; where there are none, the most probable tokens."""
        if self._ranks_given.has(sample, sample.target_ranks is not None):
            ranks = as_ids(sample.need("target_ranks", "accuracy"))
            if len(ranks) and ranks.min() < 0:
                raise ValueError(f"{sample.place}: target_ranks has {ranks.min()}; ranks count tokens, from 0")
            self._hits.append(int(among_first(ranks, self.config.k).sum()))
            right = among_first(ranks, 1)
        else:
            predicted = as_ids(sample.need("predicted_token_ids", "accuracy (or 'target_ranks')"))
            right = predicted == as_ids(sample.need("target_token_ids", "accuracy"))
        self._right.append(int(right.sum()))
        self._tokens.append(len(right))

    def result(self) -> dict[str, Score]:
        """``accuracy`` and, from ranks, ``hits@k``."""
        k = self.config.k
        ties = "ties count as right" if self._hits else "of tied tokens the one that was predicted counts"
        found = {
            "accuracy": self._score("accuracy", f"Accuracy: held-out tokens predicted first; {ties}.", self._right)
        }
        if self._hits:
            meaning = f"hits@{k}: held-out tokens with fewer than {k} more probable ones."
            found[f"hits@{k}"] = self._score(f"hits@{k}", meaning, self._hits)
        return found

    def _score(self, title: str, meaning: str, right: list[int]) -> Score:
        return Score.ratio(self.measure(title, "fraction of target tokens", meaning), right, self._tokens)
