"""Tasks on running text: training blocks, scoring in windows, and likelihood values."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int
from pydantic import Field

from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.evaluation.metrics.statistics import Interval
from nextword.experiments.tasks.prompted_texts import PromptedTexts
from nextword.experiments.tasks.small_start import SmallStart
from nextword.experiments.tasks.task import Data, Measures, Task, expect_positions
from nextword.experiments.tasks.tokenizers import named_or_trained
from nextword.experiments.tasks.writing import MAY_CHANGE
from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.calibrate import tuned
from nextword.inference.scoring.likelihood import span_log_probs, text_answers
from nextword.inference.scoring.long_text import ScoringWindow
from nextword.inference.scoring.opened_model import Progress
from nextword.inference.scoring.text_tokens import ids_and_bytes, start_id
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import Evaluation, MetricValue
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


class WindowConfig(Settings):
    """Settings for scoring a text in windows: sections, possibly overlapping, that the model reads one at a time."""

    window: int = Field(default=256, ge=2)
    """Tokens per window in measurements, at most the number of positions of the model."""
    stride: int = Field(default=128, ge=1)
    """New tokens that each window after the first scores."""
    test_tokens: int | None = Field(default=100_000, ge=2)
    """Number of test tokens that are scored, from the start of the text; none: all."""
    tuning_tokens: int = Field(default=4096, ge=2)
    """Number of validation tokens for choosing a cache's temperature and weight."""
    batch_size: int = Field(default=8, ge=1)
    """Windows per batch."""


class WindowLikelihood(Measures):
    """Measures the likelihood of the test text in windows. ValueError if the stride is longer than the window."""

    def __init__(self, test: Stream, validation: Stream, config: WindowConfig) -> None:
        if config.stride > config.window:
            raise ValueError(f"task.stride: must be at most task.window, {config.window} ({config.stride} given)")
        self._test, self._validation, self._config = test, validation, config

    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """Nats per token, perplexity and bits per byte of the test text, with bootstrap intervals."""
        with inference_mode_of(model):
            total = self._likelihood(model, self.test_stream(tokenizer), self._config.stride, progress)
        return Evaluation(metrics=likelihood_values(total))

    def test_stream(self, tokenizer: PreTrainedTokenizerBase) -> TokenStream:
        """Tokens of the test text. ValueError if the text is shorter than one window."""
        stream, window = self._test(tokenizer, self._config.test_tokens), self._config.window
        if len(stream.target) < window:
            raise ValueError(
                f"task.window: the test text must have at least one window of {window} tokens ({len(stream.target)} "
                "given); give more text or a smaller task.window"
            )
        return stream

    def read_windows(self, tokenizer: PreTrainedTokenizerBase) -> Iterator[list[int]]:
        """Yields the ids of each test window, then of each validation window on which a cache's settings are chosen."""
        tuning = self._validation(tokenizer, self._config.tuning_tokens)
        size, stride = self._config.window, self._config.stride
        for stream, step in ((self.test_stream(tokenizer), stride), (tuning, size)):
            for window in ScoringWindow(size, step).windows(1, len(stream.ids)):
                yield stream.ids[window.begin : window.begin + window.size].tolist()

    def tune(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Choose the temperature and weight of a cache by the likelihood of the first validation tokens."""
        stream = self._validation(tokenizer, self._config.tuning_tokens)
        return tuned(model, lambda: self._likelihood(model, stream, self._config.window))

    def _likelihood(
        self, model: NextWordModel, stream: TokenStream, stride: int, progress: Progress | None = None
    ) -> LikelihoodSum:
        # each window is one block of the interval
        window = ScoringWindow(self._config.window, stride, model.next_word_head.looks_back)
        asked = text_answers(model, [stream], window, self._config.batch_size, span_log_probs, progress=progress)
        total, end = LikelihoodSum(), 0
        for log_probs in next(asked):
            begin, end = end, end + len(log_probs)
            total.add(float((-log_probs).sum()), len(log_probs), int(stream.text_bytes[begin:end].sum()))
        return total


@dataclass(frozen=True)
class TokenStream:
    """A tokenized text.

    Attributes:
        ids: The M = N + 1 ids: a start token, and the N tokens of the text.
        text_bytes: Number of UTF-8 bytes that each token of the text covers.
    """

    ids: Int[np.ndarray, "M"]
    text_bytes: Int[np.ndarray, "N"]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, text: str, limit: int | None = None) -> TokenStream:
        """Tokenize a text and keep its first ``limit`` tokens; ``None``: all.

        Raises:
            ValueError: If the tokenizer has no start token, or gives no character offsets.
        """
        ids, text_bytes = ids_and_bytes(tokenizer, text)
        return cls(np.array([start_id(tokenizer), *ids[:limit]]), text_bytes[:limit])

    @property
    def context(self) -> Int[np.ndarray, "1"]:
        """The id of the start token."""
        return self.ids[:1]

    @property
    def target(self) -> Int[np.ndarray, "N"]:
        """The ids of the text, without the start token."""
        return self.ids[1:]


Stream = Callable[["PreTrainedTokenizerBase", int | None], TokenStream]
"""Function from a tokenizer and a maximum number of tokens (``None``: all) to a tokenized text."""


class TextBlocks(Data):
    """Data of running text. Each row is a block of ``block`` consecutive tokens."""

    def __init__(self, block: int) -> None:
        self._block = block

    @abstractmethod
    def token_stream(self, tokenizer: PreTrainedTokenizerBase, part: str) -> tuple[Sequence[int], str]:
        """All tokens of the split ``part``, ``train`` or ``validation``, and a name of the split for error messages."""

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Rows: blocks of the training text."""
        stream, name = self.token_stream(tokenizer, "train")
        return block_rows(stream, self._block, name, "task.block")

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Rows: blocks of the validation text."""
        stream, name = self.token_stream(tokenizer, "validation")
        return block_rows(stream, self._block, name, "task.block")


class WindowTask(Task):
    """Base class of tasks on running text: training on blocks, scoring in windows, generation from prompts.

    ``whole_text`` returns the text for training a tokenizer. ``test`` and ``validation`` tokenize the texts of these
    splits. ``longest`` is the maximum number of tokens of a generated text; None: as many as the human reference has.
    """

    may_change = MAY_CHANGE
    measures: WindowLikelihood

    def __init__(
        self,
        config: Any,
        data: TextBlocks,
        whole_text: Callable[[], str],
        test: Stream,
        validation: Stream,
        longest: int | None = None,
    ) -> None:
        self.config, self.data = config, data
        self.start = SmallStart(
            lambda: named_or_trained(config.tokenizer, whole_text, config.vocabulary, config.cache),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, max(self._lengths().values())),
            rows=lambda tokenizer, seed: data.training(tokenizer),
            training=config.start.training(),
        )
        self.measures = WindowLikelihood(test, validation, config)
        texts, size = config.generation.texts(), config.generation.batch_size
        if texts is not None:
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, longest=longest)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise ValueError for too few positions of the model, or too few test tokens for a window or a prompt."""
        expect_positions(model_config, self._lengths())
        self.measures.test_stream(tokenizer)
        if self.writes is not None:
            self._prompts(tokenizer)

    def _lengths(self) -> dict[str, int]:
        # number of tokens that the model must be able to see at once, by setting
        lengths = {"window": self.config.window, "block": self.config.block}
        return lengths | (self._written_lengths() if self.config.generation.prompts else {})

    @abstractmethod
    def _written_lengths(self) -> dict[str, int]: ...

    @abstractmethod
    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]: ...


# -- A likelihood sum as measured values with units and intervals.


def likelihood_values(total: LikelihoodSum, token: str = "token", text: str | None = None) -> dict[str, MetricValue]:
    """A mapping from the names ``nll``, ``bits_per_byte`` and, if finite, ``perplexity`` to the values of ``total``.

    Intervals are bootstrapped over the blocks that were added to ``total``. ``token`` and ``text`` are words of
    the units: "nats per target token" and "bits per UTF-8 byte of targets" with ``"target token"`` and ``"targets"``.
    """
    of = "" if text is None else f" of {text}"
    values = {
        "nll": measured_value(total.nll(), f"nats per {token}", total.tokens, total.nll_interval()),
        "bits_per_byte": measured_value(
            total.bits_per_byte(), f"bits per UTF-8 byte{of}", total.bytes, total.bits_per_byte_interval()
        ),
    }
    # A perplexity that is too large for a float is left out; nll has the same information.
    if math.isfinite(total.perplexity()):
        unit = f"per {token} of this tokenizer"
        values["perplexity"] = measured_value(total.perplexity(), unit, total.tokens, total.perplexity_interval())
    return values


def mean_perplexity(total: LikelihoodSum, token: str, texts: str) -> dict[str, MetricValue]:
    """A mapping from ``mean_perplexity`` to the mean perplexity of the texts; empty if it is not finite.

    Each block of ``total`` must be a text. ``token`` and ``texts`` are words for the unit, such as "article token" and
    "articles".
    """
    value = total.mean_perplexity()
    if not math.isfinite(value):
        return {}
    unit = f"per {token} of this tokenizer, mean over {texts}"
    return {"mean_perplexity": measured_value(value, unit, total.texts, total.mean_perplexity_interval())}


def measured_value(value: float, unit: str, n: int, interval: Interval) -> MetricValue:
    """A ``MetricValue`` measured on ``n`` items. An ``interval`` with an end that is not finite is left out."""
    low, high = interval if interval is not None and all(map(math.isfinite, interval)) else (None, None)
    return MetricValue(value=value, unit=unit, n=n, low=low, high=high)


# -- A stream of tokens that is cut into training rows of equal length.


def block_rows(stream: Sequence[int], size: int, text: str, setting: str) -> Dataset:
    """Cut ``stream`` into rows of ``size`` tokens, with ``input_ids`` and ``labels``. A shorter remainder is dropped.

    >>> block_rows([7, 1, 2, 3, 4], 2, "the training text", "task.block")["input_ids"][:]
    [[7, 1], [2, 3]]

    Raises:
        ValueError: If ``stream`` has fewer than ``size`` tokens. The message names the text (``text``) and the setting
            with the size (``setting``).
    """
    from datasets import Dataset

    blocks = [list(stream[begin : begin + size]) for begin in range(0, len(stream) - size + 1, size)]
    if not blocks:
        raise ValueError(
            f"{setting}: {text} must have at least one block of {size} tokens ({len(stream)} given); give more text "
            "or a smaller block"
        )
    return Dataset.from_dict({"input_ids": blocks, "labels": blocks})
