"""Pairs as training rows of an encoder-decoder model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nextword.experiments.tasks.parts.pair_samples import PairSamples
from nextword.experiments.tasks.parts.seq2seq.source_target import PairEncoder
from nextword.experiments.tasks.task import Data
from nextword.runtime.corpora.gap_sentences import Pair

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class StartPairs:
    """Pairs that the start is trained on in place of the training pairs.

    Attributes:
        pairs: The pairs.
        facts: What the results say of them.
    """

    pairs: Sequence[Pair] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)


class PairRows(Data):
    """Sources as ``input_ids``, targets as ``labels``; a source that several people wrote of is a row for each.

    Args:
        pairs: The task's pairs.
        encoder: Makes what turns them into ids, by tokenizer.
        first: Pairs that the start alone is trained on; none: it is trained on the training pairs.
    """

    def __init__(
        self,
        pairs: PairSamples,
        encoder: Callable[[PreTrainedTokenizerBase], PairEncoder],
        first: StartPairs,
    ) -> None:
        self.pairs, self._encoder, self._first = pairs, encoder, first

    def whole_text(self) -> str:
        """Everything that models are trained on."""
        return "\n".join(pair.text for pair in (*self._first.pairs, *self.pairs.train))

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksums, and how many test pairs have a source or target that training has too."""
        return self.pairs.describe() | dict(self._first.facts)

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training pairs."""
        return self._rows(self.pairs.train, tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The validation pairs."""
        return self._rows(self.pairs.validation, tokenizer)

    def start_rows(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """What the start is trained on."""
        return self._rows(self._first.pairs or self.pairs.train, tokenizer)

    def _rows(self, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        from datasets import Dataset

        encoded = self._encoder(tokenizer)([Pair(pair.source, text) for pair in pairs for text in pair.references])
        return Dataset.from_dict(
            {"input_ids": [pair.source.ids for pair in encoded], "labels": [pair.target.ids for pair in encoded]}
        )
