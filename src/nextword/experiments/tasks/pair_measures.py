"""Measurements on pairs: likelihood of the test targets, and predictions where a target copies a rare source word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nextword.evaluation.metrics.copying import CopyingSum, frequent_words
from nextword.experiments.tasks.pair_task import EncodedPair, PairEncoder, PairSamples, PairTaskConfig
from nextword.experiments.tasks.prompted_texts import top_words
from nextword.experiments.tasks.task import Measures
from nextword.experiments.tasks.window_likelihood import likelihood_values, measured_value
from nextword.inference.scoring.calibrate import tuned
from nextword.inference.scoring.likelihood import (
    TokenPair,
    distribution_at_targets,
    likelihood_sum,
    target_log_probs,
)
from nextword.inference.scoring.opened_model import Progress
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import Evaluation, ExamplePrediction, MetricValue
from nextword.runtime.corpora.words import words
from nextword.runtime.pretrained import token_label

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.evaluation.metrics.likelihood import LikelihoodSum
    from nextword.model.modeling import NextWordModel


class TargetLikelihood(Measures):
    """Measures the likelihood of each test target after its context (the source or prompt).

    ``tokens`` is a function that gets a tokenizer, the name of a split and a number n. It returns the first n pairs of
    the split (None: all pairs) as token ids.
    """

    def __init__(
        self,
        tokens: Callable[[PreTrainedTokenizerBase, str, int | None], Sequence[TokenPair]],
        batch_size: int,
        tuning_pairs: int,
    ) -> None:
        self._tokens, self._batch_size, self._tuning_pairs = tokens, batch_size, tuning_pairs

    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """Nats, perplexity and bits per byte of the targets. Bootstrap intervals resample whole targets."""
        with inference_mode_of(model):
            total = self._likelihood(model, self._tokens(tokenizer, "test", None), progress)
        return Evaluation(metrics=likelihood_values(total, "target token", "targets"))

    def tune(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Choose the temperature and weight of a cache by the likelihood of the first validation targets."""
        tokens = self._tokens(tokenizer, "validation", self._tuning_pairs)
        return tuned(model, lambda: self._likelihood(model, tokens))

    def _likelihood(
        self, model: NextWordModel, pairs: Sequence[TokenPair], progress: Progress | None = None
    ) -> LikelihoodSum:
        log_probs = target_log_probs(model, pairs, self._batch_size, progress=progress)
        return likelihood_sum(pairs, (float((-row).sum()) for row in log_probs))


class PairLikelihood(TargetLikelihood):
    """Measures the likelihood of the test targets, and predictions of rare words that a target copies."""

    def __init__(
        self, pairs: PairSamples, encoder: Callable[[PreTrainedTokenizerBase], PairEncoder], config: PairTaskConfig
    ) -> None:
        def tokens(tokenizer: PreTrainedTokenizerBase, part: str, count: int | None) -> list[TokenPair]:
            return [pair.tokens for pair in encoder(tokenizer)(getattr(pairs, part)[:count])]

        super().__init__(tokens, config.batch_size, config.tuning_pairs)
        self._pairs, self._encoder, self._config = pairs, encoder, config

    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """Nats, perplexity and bits per byte of the targets, and example predictions."""
        measured = super().evaluate(model, tokenizer, progress)
        encoded = self._encoder(tokenizer)(self._pairs.test)
        with inference_mode_of(model):
            examples = example_predictions(model, encoded, tokenizer, self._frequent_words())
        return Evaluation(metrics=measured.metrics, examples=examples)

    def _frequent_words(self) -> frozenset[str]:
        return frequent_words((pair.target for pair in self._pairs.train), self._config.frequent_words)


# -- What a model copies from its sources: words of its outputs, and its predictions before a rare source word.

SHOWN_WORDS = 60
"""Maximum number of source words that an example shows, from the beginning of the source."""


def copying_metrics(examples: Sequence[tuple[str, str, str]], frequent: frozenset[str]) -> dict[str, MetricValue]:
    """Copy recall and precision over all words and over rare words. Values with denominator 0 are left out.

    ``examples`` are triples of source, reference and output; ``frequent`` are the words that are not rare.
    """
    metrics: dict[str, MetricValue] = {}
    for prefix, kind, leave_out in (("", "source words", frozenset[str]()), ("rare_", "rare source words", frequent)):
        total = CopyingSum(leave_out)
        for source, reference, output in examples:
            total.add(source, reference, output)
        recall, precision = total.recall(), total.precision()
        if recall is not None:
            unit = f"fraction of {kind} in the reference"
            metrics[f"{prefix}copy_recall"] = measured_value(recall, unit, total.wanted, total.recall_interval())
        if precision is not None:
            unit = f"fraction of {kind} in the output"
            metrics[f"{prefix}copy_precision"] = measured_value(
                precision, unit, total.copied, total.precision_interval()
            )
    return metrics


def example_predictions(
    model: NextWordModel,
    pairs: Sequence[EncodedPair],
    tokenizer: PreTrainedTokenizerBase,
    frequent: frozenset[str],
    count: int = 3,
    k: int = 3,
) -> list[ExamplePrediction]:
    """The top ``k`` tokens at positions where a target copies a rare word from its source.

    A word is rare if it is not in ``frequent``. There is one prediction for each of the first ``count`` pairs with such
    a word, which must be a single token and not the first word of the target. Each prediction has the contribution of
    each part of the head (such as a cache).
    """
    predictions: list[ExamplePrediction] = []
    for pair in pairs:
        position = _rare_copy(pair, frequent)
        if position is None:
            continue
        dist, targets = distribution_at_targets(model, [pair.tokens])
        top = top_words(dist, position, k, tokenizer)
        wanted = token_label(tokenizer, int(targets[position]))
        begun = pair.target.text[: pair.target.starts[position]].strip()
        source = pair.source.text.split()
        cut = " \N{HORIZONTAL ELLIPSIS}" if len(source) > SHOWN_WORDS else ""
        shown = f"{' '.join(source[:SHOWN_WORDS])}{cut} \N{RIGHTWARDS ARROW} {begun}"
        predictions.append(ExamplePrediction(prompt=shown, expected=[wanted], setting="joint", top=top))
        if len(predictions) == count:
            break
    return predictions


def _rare_copy(pair: EncodedPair, frequent: frozenset[str]) -> int | None:
    # the position of the first target token, after the first word, that is a whole rare word of the source
    text, starts = pair.target.text, pair.target.starts
    rare_words = set(words(pair.source.text)) - frequent
    for position, begin in enumerate(starts):
        end = next((start for start in starts[position + 1 :] if start >= 0), len(text))
        inside_word = text[begin : begin + 1].isalnum() and text[begin - 1 : begin].isalnum()
        is_cut = text[end : end + 1].isalnum() and text[end - 1 : end].isalnum()
        if begin > 0 and not inside_word and not is_cut and rare_words.issuperset(words(text[begin:end]) or [""]):
            return position
    return None
