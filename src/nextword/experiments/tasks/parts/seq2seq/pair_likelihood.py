"""Likelihood of the test targets, with the predictions before some rare words that could be copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nextword.evaluation.metrics.copying import frequent_words
from nextword.experiments.tasks.parts.likelihood_values import likelihood_values
from nextword.experiments.tasks.parts.pair_samples import PairSamples
from nextword.experiments.tasks.parts.seq2seq.copying_measures import example_predictions
from nextword.experiments.tasks.parts.seq2seq.pair_task import PairTaskConfig
from nextword.experiments.tasks.parts.seq2seq.source_target import PairEncoder
from nextword.experiments.tasks.task import Measures
from nextword.inference.scoring.calibration.chosen_settings import tuned
from nextword.inference.scoring.minibatches import Progress
from nextword.inference.scoring.target_likelihood import TokenPair, likelihood_sum, target_log_probs
from nextword.model.training_modes import measuring
from nextword.results.records import Evaluation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.evaluation.metrics.likelihood import LikelihoodSum


class PairLikelihood(Measures):
    """Likelihood over all test pairs, example predictions.

    Args:
        pairs: The pairs.
        encoder: Makes what turns them into ids, by tokenizer.
        config: Settings of the task.
    """

    def __init__(
        self,
        pairs: PairSamples,
        encoder: Callable[[PreTrainedTokenizerBase], PairEncoder],
        config: PairTaskConfig,
    ) -> None:
        self._pairs, self._encoder, self._config = pairs, encoder, config

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Nats, perplexity and bits per byte of the targets."""
        encoded = self._encoder(tokenizer)(self._pairs.test)
        with measuring(model):
            total = self._likelihood(model, [pair.tokens for pair in encoded], progress)
            examples = example_predictions(model, encoded, tokenizer, self._frequent_words())
        return Evaluation(metrics=likelihood_values(total, "target token", "targets"), examples=examples)

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation targets."""
        encoded = self._encoder(tokenizer)(self._pairs.validation[: self._config.tuning_pairs])
        tokens = [pair.tokens for pair in encoded]
        return tuned(model, lambda: self._likelihood(model, tokens))

    def _frequent_words(self) -> frozenset[str]:
        return frequent_words((pair.target for pair in self._pairs.train), self._config.frequent_words)

    def _likelihood(self, model: Any, pairs: Sequence[TokenPair], progress: Progress | None = None) -> LikelihoodSum:
        log_probs = target_log_probs(model, pairs, self._config.batch_size, progress=progress)
        return likelihood_sum(pairs, (float((-row).sum()) for row in log_probs))
