"""The small model that a task trains from scratch, for when no pretrained one is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from nextword.experiments.tasks.task import Pretraining, Start

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


class SmallStart(Start):
    """A tokenizer, a small model for its tokens, and what that is trained on.

    Args:
        tokenizer: Makes the tokenizer; called once.
        architecture: Makes the model's configuration.
        rows: Makes the rows, by tokenizer and seed.
        training: ``steps``, ``batch_size``, ``learning_rate``.
    """

    def __init__(
        self,
        tokenizer: Callable[[], PreTrainedTokenizerBase],
        architecture: Callable[[PreTrainedTokenizerBase], PretrainedConfig],
        rows: Callable[[PreTrainedTokenizerBase, int], Dataset],
        training: dict[str, Any],
    ) -> None:
        self._tokenizer = cache(tokenizer)
        self._rows = rows
        self.architecture, self.training = architecture, training

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that was named, or one made from the data."""
        return self._tokenizer()

    def pretraining(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Pretraining:
        """The configuration, the rows and the settings of the training."""
        return Pretraining(self.architecture(tokenizer), self._rows(tokenizer, seed), self.training)
