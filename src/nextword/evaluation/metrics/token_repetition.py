"""rep/l and wrep/l: how often the most probable next token is one of the last l, and how often wrongly so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, NumbersConfig, Score, Setup, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import as_ids

Ids = Sequence[int] | Int[np.ndarray, "T"]


def steps_back(targets: Ids, predicted: Ids) -> Int[np.ndarray, "T"]:
    """How many steps back each predicted token was last a target, and 0 where it was none before.

    ``predicted[t]`` is in the window of the last l targets, ``targets[t - l:t]``, where this is from 1 to l; one pass
    so answers for every l, in time linear (times a logarithm) in the tokens.

    >>> steps_back([5, 6, 7, 8], [5, 5, 5, 9]).tolist()
    [0, 1, 2, 0]
    """
    said, guessed = np.asarray(targets, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if said.shape != guessed.shape:
        raise ValueError(f"steps back: {len(said)} targets, {len(guessed)} predictions")
    length = len(said)
    numbers = np.unique(np.concatenate([said, guessed]), return_inverse=True)[1].reshape(-1)
    place = np.arange(length)
    # Sorted by token, then place: the last target before (token, t) is the one that stands just below it.
    order = np.sort(numbers[:length] * length + place)
    asked = numbers[length:] * length + place
    below = np.searchsorted(order, asked) - 1
    last = order[np.maximum(below, 0)]
    same = (below >= 0) & (last // max(length, 1) == numbers[length:])
    steps: Int[np.ndarray, "T"] = np.where(same, asked - last, 0)
    return steps


class TokenRepetitionConfig(NumbersConfig):
    """Settings of rep/l and wrep/l."""

    numbers = meaning = "windows"

    windows: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(16, 32, 128, 512), min_length=1)
    """The numbers l of earlier targets in which a prediction is looked up."""


@registry.register("token-repetition")
class TokenRepetition(Metric):
    """rep/l: predictions that are among the last l tokens; wrep/l: and wrong. Example: ``token-repetition:128``."""

    Config = TokenRepetitionConfig
    needs = ("target_token_ids", "predicted_token_ids")
    votes = ("rep/128",)
    group, goal, decimals = metric.REPETITION, "human", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._repeated: list[Int[np.ndarray, "L 2"]] = []
        self._tokens: list[int] = []

    def add(self, sample: Sample) -> None:
        """Reads the predictions of one block; the window begins anew with it."""
        targets = as_ids(sample.need("target_token_ids", "token-repetition"))
        predicted = as_ids(sample.need("predicted_token_ids", "token-repetition"))
        steps, wrong = steps_back(targets, predicted), targets != predicted
        repeated = [(steps > 0) & (steps <= window) for window in self.config.windows]
        self._repeated.append(np.array([(inside.sum(), (inside & wrong).sum()) for inside in repeated]))
        self._tokens.append(len(targets))

    def result(self) -> dict[str, Score]:
        """``rep/l`` of every window, then ``wrep/l``."""
        counts = np.array(self._repeated, dtype=np.float64).reshape(-1, len(self.config.windows), 2)
        found = {}
        for kind, (name, which) in enumerate((("rep", ""), ("wrep", " and are wrong"))):
            for number, window in enumerate(self.config.windows):
                title = f"{name}/{window}"
                meaning = f"{title}: most probable next tokens that are among the {window} targets before{which}; each "
                measure = self.measure(title, "fraction of predicted tokens", f"{meaning}sample begins anew.")
                found[title] = Score.ratio(measure, counts[:, number, kind], self._tokens)
        return found
