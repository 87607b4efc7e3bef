"""Likelihood of articles after their summaries, and what another article's summary does to it: steering."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.evaluation.metrics.parts.intervals import bootstrap_ratio
from nextword.experiments.tasks.parts.expand.summary_prompts import Beginning, SummaryPrompts
from nextword.experiments.tasks.parts.likelihood_values import likelihood_values, mean_perplexity, measured_value
from nextword.inference.scoring.minibatches import Progress, progress_within
from nextword.inference.scoring.target_likelihood import Inputs, likelihood_sum, target_log_probs
from nextword.results.records import MetricValue

SHUFFLES = 1000
"""How often summaries are dealt out before it is given up to give nobody its own."""


@dataclass(frozen=True)
class Scorer:
    """Asks a model for the likelihood of beginnings of articles.

    Attributes:
        model: An attached model.
        prompts: Makes what stands before them.
        inputs: Makes what a conditioned model reads besides.
        batch_size: Articles at a time.
    """

    model: Any
    prompts: SummaryPrompts
    inputs: Inputs
    batch_size: int

    def nats(
        self, beginnings: Sequence[Beginning], prompted: bool, progress: Progress | None = None
    ) -> Float[np.ndarray, "N"]:
        """Summed nats of each beginning; those of a summary that stands before it are not counted."""
        pairs = self.prompts.before(beginnings, prompted)
        rows = target_log_probs(self.model, pairs, self.batch_size, self.inputs, progress)
        return np.array([-math.fsum(row.tolist()) for row in rows])

    def likelihood(self, beginnings: Sequence[Beginning], nats: Float[np.ndarray, "N"]) -> LikelihoodSum:
        """Their sum; each article is one block of the interval."""
        return likelihood_sum(self.prompts.before(beginnings, prompted=False), nats.tolist())


def steering_metrics(
    scorer: Scorer, beginnings: Sequence[Beginning], seed: int, progress: Progress | None = None
) -> dict[str, MetricValue]:
    """Likelihood without and with the summary as prompt, and how much of it is due to the right summary.

    Args:
        scorer: Asks the model.
        beginnings: Beginnings of test articles.
        seed: Of the summaries dealt out anew.
        progress: Told the share that is done.
    """
    others = with_other_summaries(beginnings, seed)
    settings = [(beginnings, False), (beginnings, True), (others, True)]
    if scorer.model.conditioner is not None:
        settings.append((others, False))  # without conditioner and prompt nothing says the summary
    nats = [
        scorer.nats(pairs, prompted, progress_within(progress, number / len(settings), (number + 1) / len(settings)))
        for number, (pairs, prompted) in enumerate(settings)
    ]
    alone, prompted_right, prompted_other, *guided_other = nats
    metrics = _likelihoods(scorer.likelihood(beginnings, alone))
    prompted_metrics = _likelihoods(scorer.likelihood(beginnings, prompted_right))
    metrics |= {f"prompted_{name}": value for name, value in prompted_metrics.items()}
    tokens = np.array([len(one.ids) for one in beginnings], dtype=np.float64)
    if guided_other:
        metrics["steering"] = _steering(guided_other[0] - alone, tokens)
    metrics["prompted_steering"] = _steering(prompted_other - prompted_right, tokens)
    return metrics


def _likelihoods(total: LikelihoodSum) -> dict[str, MetricValue]:
    """With two perplexities: of all articles together, and the mean of those of the articles, as in the report."""
    token, texts = "article token", "articles"
    return likelihood_values(total, token, texts) | mean_perplexity(total, token, texts)


def _steering(lost: Float[np.ndarray, "N"], tokens: Float[np.ndarray, "N"]) -> MetricValue:
    """The bootstrap draws articles, each with both of its likelihoods: a paired one."""
    unit = "nats per article token lost with another article's summary"
    return measured_value(float(lost.sum() / tokens.sum()), unit, int(tokens.sum()), bootstrap_ratio(lost, tokens))


def with_other_summaries(beginnings: Sequence[Beginning], seed: int) -> list[Beginning]:
    """The same articles, each with the summary and the prompt of another article; no summary is used twice.

    Args:
        beginnings: At least two.
        seed: Of the choice.

    Raises:
        ValueError: No such choice was found, because too many pairs share an article or a summary.
    """
    chance = random.Random(seed)
    order = list(range(len(beginnings)))
    for _ in range(SHUFFLES):
        chance.shuffle(order)
        # each takes over from the next in a circle, so nobody keeps its own
        others = {one: beginnings[other] for one, other in zip(order, [*order[1:], order[0]], strict=True)}
        if all(_differ(beginnings[one], other) for one, other in others.items()):
            return [
                replace(one, summary=others[place].summary, prompt=others[place].prompt)
                for place, one in enumerate(beginnings)
            ]
    raise ValueError(
        f"steering: the {len(beginnings)} test articles cannot get another article's summary each, because too many "
        f"share an article or a summary. Give more test pairs (task.test_share, task.test_pairs)."
    )


def _differ(one: Beginning, other: Beginning) -> bool:
    return one.summary != other.summary and one.article != other.article
