"""How often a training reads its data, and what follows where that is many times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nextword.experiments.training.settings import TrainingSettings
from nextword.functional.padding import IGNORED_LABEL

MANY_TIMES = 4.0
"""Repeating a text up to about four times is nearly as good as new text (Muennighoff et al. 2023, Scaling
Data-Constrained Language Models); after that a model learns it by heart."""

VALIDATIONS = 10
"""Validation losses of a training that reads its data many times, where nothing else is asked for."""


@dataclass(frozen=True)
class DataUse:
    """How much a training reads.

    Attributes:
        rows: Rows of the training data.
        steps: Optimiser steps.
        times: How often each row is read.
    """

    rows: int
    steps: int
    times: float

    @classmethod
    def of(cls, rows: int, settings: TrainingSettings) -> DataUse:
        """What these settings make of so many rows.

        >>> DataUse.of(80, TrainingSettings(steps=100, batch_size=8)).times
        10.0
        >>> DataUse.of(80, TrainingSettings(epochs=3, batch_size=8)).steps
        30
        """
        at_once = settings.batch_size * settings.gradient_accumulation_steps
        if settings.steps is None:
            assert settings.epochs is not None
            return cls(rows, math.ceil(settings.epochs * math.ceil(rows / at_once)), settings.epochs)
        return cls(rows, settings.steps, settings.steps * at_once / rows)

    @property
    def is_repeated(self) -> bool:
        """Whether it is read so often that a model learns it by heart."""
        return self.times > MANY_TIMES

    def watched(self, settings: TrainingSettings, given: Mapping[str, Any]) -> TrainingSettings:
        """The settings; where data are read many times, with validation losses, and the best weights are kept.

        Args:
            settings: All of them.
            given: Those that somebody asked for; they stay.
        """
        if not self.is_repeated or "evaluate_every" in given:
            return settings
        keep_best = given.get("keep_best", settings.checkpoint_every is not None)
        every = max(1, self.steps // VALIDATIONS)
        return settings.model_copy(update={"evaluate_every": every, "keep_best": keep_best})

    def sentence(self, data: Iterable[Mapping[str, Any]], parameters: int, settings: TrainingSettings) -> str:
        """What is said before a training begins.

        Args:
            data: The rows; tokens are counted where they are read many times.
            parameters: Parameters that are trained.
            settings: As they are used.
        """
        if not self.is_repeated:
            return f"The training data is read {self.times:.1f} times."
        tokens = sum(label != IGNORED_LABEL for row in data for label in row["labels"])
        fewer = (
            f"training.epochs={MANY_TIMES:.0f}"
            if settings.steps is None
            else f"training.steps={max(1, math.floor(self.steps * MANY_TIMES / self.times))}"
        )
        kept = " The weights of the lowest validation loss are kept." if settings.keep_best else ""
        return (
            f"The training data is read {self.times:.1f} times: {tokens:,} tokens to predict, {parameters:,} "
            f"parameters to train. What is read so often is learned by heart.{kept} To read it less: {fewer}."
        )
