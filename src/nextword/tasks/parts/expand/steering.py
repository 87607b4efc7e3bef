"""Measurements of the task ``expand``: likelihood of articles, and what another article's summary does to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nextword.decoding.continuations import log_probs_of_references
from nextword.metrics.likelihood import LikelihoodSum
from nextword.metrics.parts.intervals import bootstrap_ratio
from nextword.records import MetricValue
from nextword.scoring.ask import Progress, batches, part_of
from nextword.tasks.parts.expand.article_encoding import Beginning, Guide, SummaryPrompts, with_other_summaries
from nextword.tasks.parts.likelihood_values import likelihood_values, mean_perplexity, measured_value


@dataclass(frozen=True)
class Scorer:
    """Asks a model for the likelihood of beginnings of articles.

    Attributes:
        model: An attached model.
        prompts: Makes what stands before them.
        guide: Makes what a conditioned model is told beside.
        batch_size: Articles at a time.
    """

    model: Any
    prompts: SummaryPrompts
    guide: Guide
    batch_size: int

    def nats(
        self, given: Sequence[Beginning], prompted: bool, progress: Progress | None = None
    ) -> Float[np.ndarray, "N"]:
        """Summed nats of each beginning; those of a summary that stands before it are not counted."""
        found: list[float] = []
        for part in batches(given, self.batch_size):
            rows = log_probs_of_references(self.model, self.prompts.before(part, prompted), self.guide(part))
            found += [-math.fsum(row) for row in rows]
            if progress is not None:
                progress(len(found) / len(given))
        return np.array(found)


def total(given: Sequence[Beginning], nats: Float[np.ndarray, "N"]) -> LikelihoodSum:
    """Their sum; each article is one block of the interval."""
    found = LikelihoodSum()
    for one, value in zip(given, nats.tolist(), strict=True):
        found.add(value, len(one.ids), one.text_bytes)
    return found


def measured(
    scorer: Scorer, given: Sequence[Beginning], seed: int, progress: Progress | None = None
) -> dict[str, MetricValue]:
    """Likelihood without and with the summary as prompt, and how much of it is due to the right summary.

    Args:
        scorer: Asks the model.
        given: Beginnings of test articles.
        seed: Of the summaries dealt out anew.
        progress: Told the share that is done.
    """
    others = with_other_summaries(given, seed)
    asked = [(given, False), (given, True), (others, True)]
    if scorer.model.conditioner is not None:
        asked.append((others, False))  # without conditioner and prompt nothing says the summary
    nats = [
        scorer.nats(pairs, prompted, part_of(progress, number / len(asked), (number + 1) / len(asked)))
        for number, (pairs, prompted) in enumerate(asked)
    ]
    alone, prompted_right, prompted_other, *guided_other = nats
    found = _likelihoods(total(given, alone))
    found |= {f"prompted_{name}": value for name, value in _likelihoods(total(given, prompted_right)).items()}
    tokens = np.array([len(one.ids) for one in given], dtype=np.float64)
    if guided_other:
        found["steering"] = _steering(guided_other[0] - alone, tokens)
    found["prompted_steering"] = _steering(prompted_other - prompted_right, tokens)
    return found


def _likelihoods(found: LikelihoodSum) -> dict[str, MetricValue]:
    """With two perplexities: of all articles together, and the mean of those of the articles, as in the report."""
    token, texts = "article token", "articles"
    return likelihood_values(found, token, texts) | mean_perplexity(found, token, texts)


def _steering(lost: Float[np.ndarray, "N"], tokens: Float[np.ndarray, "N"]) -> MetricValue:
    """The bootstrap draws articles, each with both of its likelihoods: a paired one."""
    unit = "nats per article token lost with another article's summary"
    return measured_value(float(lost.sum() / tokens.sum()), unit, int(tokens.sum()), bootstrap_ratio(lost, tokens))
