"""The sentences about tables that a task uses: of each part at most so many, always the same ones for a seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from nextword.experiments.tasks.parts.table2text.linearisation import Linearisation
from nextword.runtime.corpora import PARTS
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.logicnlg import LogicNLG, TableSentence
from nextword.runtime.corpora.pairs import sample


class TableSamples:
    """Sentences in three parts, each cut to a size.

    Args:
        available: All sentences.
        sizes: How many to train, validate and test on at most; ``None``: all.
        seed: Of the samples.
        linearised: Writes the table of a sentence as text.

    Attributes:
        train: Sentences that are trained on.
        validation: Those that validate.
        test: Those that test.
    """

    def __init__(
        self,
        available: LogicNLG,
        sizes: tuple[int | None, int | None, int | None],
        seed: int,
        linearised: Linearisation,
    ) -> None:
        self.available, self._linearised = available, linearised
        self.train, self.validation, self.test = (
            sample(getattr(available, part), size, seed) for part, size in zip(PARTS, sizes, strict=True)
        )
        self._by_table: dict[str, list[str]] = defaultdict(list)
        for one in available.test:
            self._by_table[one.table.name].append(one.sentence)

    def pairs(self, sentences: Sequence[TableSentence]) -> list[Pair]:
        """Table and sentence; white space of both is single, as in PLOG."""
        return [Pair(self._linearised(one), " ".join(one.sentence.split())) for one in sentences]

    def references(self, one: TableSentence) -> list[str]:
        """What people wrote about the table of a test sentence: this sentence first, then the others."""
        others = list(self._by_table[one.table.name])
        others.remove(one.sentence)
        return [one.sentence, *others]

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, checksum, and how many test sentences are about a table, or say a sentence, that training has."""
        sizes: dict[str, int | float | str] = {}
        for part in PARTS:
            available = getattr(self.available, part)
            sizes[f"{part}_sentences"] = len(getattr(self, part))
            sizes[f"{part}_sentences_available"] = len(available)
            sizes[f"{part}_tables_available"] = len({one.table.name for one in available})
        tables = {_cells(one) for one in self.available.train}
        sentences = {one.sentence for one in self.available.train}
        return {
            "source": self.available.source,
            "sha256": self.available.sha256,
            "split": "files",
            **sizes,
            "leak_tables": sum(_cells(one) in tables for one in self.available.test),
            "leak_sentences": sum(one.sentence in sentences for one in self.available.test),
        }


def _cells(one: TableSentence) -> Any:
    return one.table.header, one.table.rows
