"""A metric."""

from __future__ import annotations

import numpy as np

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.results.records import Measure


class ShoutingConfig(MetricConfig):
    pass


@registry.register("shouting")
class Shouting(Metric):
    """Shouting: share of the letters of a text that are capitals."""

    Config = ShoutingConfig
    needs = ("text",)

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self.shares: list[float] = []

    def add(self, sample: Sample) -> None:
        text = sample.need("text", "shouting")
        self.shares.append(sum(letter.isupper() for letter in text) / max(len(text), 1))

    def result(self) -> dict[str, Score]:
        measure = Measure(
            title="Shouting", group=metric.DIVERSITY, unit="fraction of letters", goal="human", decimals=1, meaning="-"
        )
        return {"shouting": Score.mean(measure, np.array(self.shares))}
