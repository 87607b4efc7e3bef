"""Sentences about tables as training rows of an encoder-decoder model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nextword.experiments.tasks.parts.seq2seq.source_target import PairEncoder
from nextword.experiments.tasks.parts.table2text.linearisation import MARKS
from nextword.experiments.tasks.parts.table2text.table_samples import TableSamples
from nextword.experiments.tasks.task import Data
from nextword.runtime.corpora.gap_sentences import GapConfig, Pair, gap_pairs
from nextword.runtime.corpora.texts import TextParts

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class TableRows(Data):
    """Tables as ``input_ids``, sentences as ``labels``.

    Args:
        samples: The sentences.
        encoder: Makes what turns pairs into ids, by tokenizer.
        further: Text for the start alone, of each paragraph of which a sentence is taken out; ``None``: there is none.
    """

    def __init__(
        self,
        samples: TableSamples,
        encoder: Callable[[PreTrainedTokenizerBase], PairEncoder],
        further: TextParts | None,
    ) -> None:
        self.samples, self._encoder, self._further = samples, encoder, further
        self._gaps = [] if further is None else list(gap_pairs(further.train, GapConfig(), seed=0))

    def whole_text(self) -> str:
        """Everything that models are trained on; of each table the columns of one sentence, without marks."""
        train = self.samples.train
        tables = list({one.table.name: one for one in train}.values())
        cells = [[word for word in pair.source.split() if word not in MARKS] for pair in self.samples.pairs(tables)]
        texts = [*map(" ".join, cells), *(one.sentence for one in train), *(pair.text for pair in self._gaps)]
        return "\n".join(texts)

    def describe(self) -> dict[str, int | float | str]:
        """What the samples say, and where the further text is from."""
        described = self.samples.describe()
        if self._further is not None:
            described |= {
                "start_source": self._further.source,
                "start_sha256": self._further.sha256,
                "start_pairs": len(self._gaps),
            }
        return described

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training sentences."""
        return self._rows(self.samples.pairs(self.samples.train), tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The validation sentences."""
        return self._rows(self.samples.pairs(self.samples.validation), tokenizer)

    def start_rows(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training sentences, and those taken out of the further text."""
        return self._rows([*self.samples.pairs(self.samples.train), *self._gaps], tokenizer)

    def test_text(self) -> str:
        """All test sentences."""
        return "\n".join(one.sentence for one in self.samples.available.test)

    def _rows(self, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        from datasets import Dataset

        encoded = self._encoder(tokenizer)(pairs)
        return Dataset.from_dict(
            {"input_ids": [pair.source.ids for pair in encoded], "labels": [pair.target.ids for pair in encoded]}
        )
