"""TAPEX-Acc: does a text follow from its table, asked of a BART that learned to execute queries, then TabFact."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nextword.evaluation.judges.checkpoints import Encoded
from nextword.evaluation.judges.classifier import InputForm, Question
from nextword.evaluation.judges.entailment import TableConfig, TableEntailment
from nextword.evaluation.judges.tables import tapex_form
from nextword.evaluation.metrics import Table, registry


class TapexSequence(InputForm):
    """Text and table as one sequence in small letters; too many tokens: cut at the end.

    transformers has no TapexTokenizer any more. It was the tokenizer of BART on this string. A space goes before what
    is tokenized, the sequence as well as a single cell, as PLOG's script has it (``add_prefix_space=True``; the
    configuration of the checkpoint says false). A cell that is cut keeps that space; a whole cell has none.
    """

    def __init__(self, cell_tokens: int) -> None:
        self.name = f"tapex-space-{cell_tokens}"
        self._cell_tokens = cell_tokens

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """BART's, whichever class the checkpoint names."""
        import transformers

        return transformers.BartTokenizer.from_pretrained(name, add_prefix_space=True, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """The tokens of ``<s> text col : a | b row 1 : x | y ... </s>``."""
        table, text = question
        assert isinstance(table, Table)
        rows = [[self._cut(cell, tokenizer) for cell in row] for row in table.rows]
        sequence = f"{text} {tapex_form(table.model_copy(update={'rows': rows}))}".lower()
        return dict(tokenizer(sequence, truncation=True, max_length=limit, split_special_tokens=True))

    def _cut(self, cell: str, tokenizer: Any) -> str:
        # A token has at least one byte: short cells, and the space before them, need no look.
        if len(cell.encode()) + 1 < self._cell_tokens or not cell.strip():
            return cell
        ids = tokenizer(cell, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return cell if len(ids) < self._cell_tokens else str(tokenizer.decode(ids[: self._cell_tokens]))


class TapexConfig(TableConfig):
    """Settings of TAPEX-Acc."""

    model: str | None = "microsoft/tapex-large-finetuned-tabfact"
    """Folder or hub name of a BartForSequenceClassification that was trained on tables in the form of TAPEX."""
    max_length: int = Field(default=1024, ge=8)
    """Tokens of text and table together; fewer where the model has a lower limit."""
    cell_tokens: int = Field(default=15, ge=1)
    """Tokens that are kept of a cell."""


@registry.register("tapex")
class Tapex(TableEntailment):
    """TAPEX-Acc: share of texts that TAPEX takes to follow from the table. Example: ``tapex``."""

    Config = TapexConfig
    title = "TAPEX-Acc"

    def form(self) -> InputForm:
        """Text and table as one sequence."""
        return TapexSequence(self.config.cell_tokens)
