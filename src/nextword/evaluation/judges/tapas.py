"""TAPAS-Acc: does a text follow from its table, asked of a TAPAS model trained on TabFact."""

from __future__ import annotations

from typing import Any

from nextword.evaluation.judges.checkpoints import Encoded
from nextword.evaluation.judges.classifier import InputForm, Question
from nextword.evaluation.judges.entailment import TableConfig, TableEntailment
from nextword.evaluation.metrics import Table, registry


class TableAndQuestion(InputForm):
    """Text first, then the cells with their columns, rows and ranks.

    Of too many tokens every cell keeps its first ones; if that is not enough, rows are dropped from the end, as TAPAS
    does.
    """

    name = "tapas"

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """The tokenizer of tables."""
        import transformers

        return transformers.TapasTokenizer.from_pretrained(name, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """Tokens, and seven types for each."""
        import pandas  # type: ignore[import-untyped]

        table, text = question
        assert isinstance(table, Table)
        # Column 0 and row 0 stand for the text and the header; the model has no embedding beyond these numbers,
        # and the tokenizer does not know that.
        columns, rows = config.type_vocab_sizes[1] - 1, config.type_vocab_sizes[2] - 1
        if len(table.header) > columns:
            raise ValueError(f"the table has {len(table.header)} columns, the model takes {columns}")
        # Plain objects: the tokenizer puts objects of its own into the cells, which columns of text refuse.
        cells = pandas.DataFrame([list(row) for row in table.rows[:rows]], columns=list(table.header), dtype=object)
        return dict(tokenizer(table=cells, queries=text, truncation=True, max_length=limit))


class TapasConfig(TableConfig):
    """Settings of TAPAS-Acc."""

    model: str | None = "google/tapas-large-finetuned-tabfact"
    """Folder or hub name of a TapasForSequenceClassification."""


@registry.register("tapas")
class Tapas(TableEntailment):
    """TAPAS-Acc: share of texts that TAPAS takes to follow from the table. Example: ``tapas``."""

    Config = TapasConfig
    title = "TAPAS-Acc"
    nameless_label = 1  # in the checkpoints of TabFact 1 is entailed, 0 refuted

    def form(self) -> InputForm:
        """The table as a table."""
        return TableAndQuestion()
