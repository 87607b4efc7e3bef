"""The likelihood of a stream of tokens in windows, and a cache tuned by it, as what a task measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.experiments.tasks.parts.likelihood_values import likelihood_values
from nextword.experiments.tasks.task import Measures
from nextword.inference.scoring.calibration.chosen_settings import tuned
from nextword.inference.scoring.long_text import TokenStream, stream_likelihood
from nextword.inference.scoring.minibatches import Progress
from nextword.inference.scoring.windows import Window, windows
from nextword.model.training_modes import measuring
from nextword.results.records import Evaluation
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Stream = Callable[["PreTrainedTokenizerBase", int | None], TokenStream]
"""So many tokens of a text at most; ``None``: all."""


class WindowConfig(Settings):
    """How a text is scored in windows."""

    window: int = Field(default=256, ge=2)
    """Tokens a model sees at once in measurements; at most what its positions allow."""
    stride: int = Field(default=128, ge=1)
    """New tokens scored by each window after the first."""
    test_tokens: int | None = Field(default=100_000, ge=2)
    """Tokens of the test text that are scored, from its beginning; None: all."""
    tuning_tokens: int = Field(default=4096, ge=2)
    """Tokens of the validation text on which a cache's temperature and weight are chosen."""
    batch_size: int = Field(default=8, ge=1)
    """Windows at a time in measurements."""


class WindowLikelihood(Measures):
    """Likelihood of the test text, in windows.

    Args:
        test: The test text.
        validation: The validation text.
        config: How it is scored.

    Raises:
        ValueError: The stride is longer than the window.
    """

    def __init__(self, test: Stream, validation: Stream, config: WindowConfig) -> None:
        if config.stride > config.window:
            raise ValueError(f"task.stride ({config.stride}) must not be longer than task.window ({config.window})")
        self._test, self._validation, self._config = test, validation, config

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Perplexity and nll per token of this tokenizer, and bits per byte of the text, with bootstrap intervals."""
        stream, spans = self.test_windows(tokenizer)
        with measuring(model):
            total = self._likelihood(model, stream, spans, progress)
        return Evaluation(metrics=likelihood_values(total))

    def test_windows(self, tokenizer: PreTrainedTokenizerBase) -> tuple[TokenStream, list[Window]]:
        """The test text, and the windows in which it is scored; ValueError where it is shorter than one."""
        stream = self._test(tokenizer, self._config.test_tokens)
        return stream, windows(len(stream), self._config.window, self._config.stride)

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation tokens."""
        stream = self._validation(tokenizer, self._config.tuning_tokens)
        size = min(self._config.window, len(stream) - 1)
        spans = windows(len(stream), size, stride=size)
        return tuned(model, lambda: self._likelihood(model, stream, spans))

    def _likelihood(
        self, model: Any, stream: TokenStream, spans: list[Window], progress: Progress | None = None
    ) -> LikelihoodSum:
        return stream_likelihood(model, stream, spans, self._config.batch_size, progress)
