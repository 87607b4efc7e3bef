"""Pairs as training rows of an encoder-decoder model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nextword.corpora.gap_sentences import Pair
from nextword.corpora.pairs import PairParts, leaks
from nextword.tasks.parts.pair_samples import PairSamples
from nextword.tasks.parts.seq2seq.source_target import PairEncoder
from nextword.tasks.task import Data

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class PairRows(Data):
    """Sources as ``input_ids``, targets as ``labels``.

    Args:
        pairs: The task's pairs.
        encoder: Makes what turns them into ids, by tokenizer.
        first: Pairs that the start alone is trained on; ``None``: it is trained on the training pairs.
    """

    def __init__(
        self,
        pairs: PairSamples,
        encoder: Callable[[PreTrainedTokenizerBase], PairEncoder],
        first: PairParts | None = None,
    ) -> None:
        self.pairs, self._encoder, self._first = pairs, encoder, first

    @property
    def start_pairs(self) -> Sequence[Pair]:
        """Pairs for the start alone; empty where there are none."""
        return () if self._first is None else self._first.train

    def whole_text(self) -> str:
        """Everything that models are trained on."""
        return "\n".join(pair.text for pair in (*self.start_pairs, *self.pairs.train))

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksums, and how many test pairs have a source or target that training has too."""
        described = self.pairs.describe()
        if self._first is not None:
            described |= {
                "start_source": self._first.source,
                "start_sha256": self._first.sha256,
                "start_pairs": len(self._first.train),
                **leaks(self._first.train, self.pairs.available.test, "start_leak", self.pairs.reading),
            }
        return described

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training pairs."""
        return self.rows(self.pairs.train, tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The validation pairs."""
        return self.rows(self.pairs.validation, tokenizer)

    def rows(self, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Pairs as columns of a data set."""
        from datasets import Dataset

        encoded = self._encoder(tokenizer)(pairs)
        return Dataset.from_dict(
            {"input_ids": [pair.source.ids for pair in encoded], "labels": [pair.target.ids for pair in encoded]}
        )
