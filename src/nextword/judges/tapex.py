"""TAPEX-Acc: does a text follow from its table, asked of a BART that learned to execute queries, then TabFact."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nextword.judges.batches import Encoded
from nextword.judges.classifier import Form, Question
from nextword.judges.entailment import ClassifierConfig, Entailment
from nextword.judges.tables import is_empty, tapex_form
from nextword.metrics import Sample, Table, registry


class TapexSequence(Form):
    """Text and table as one sequence in small letters; too many tokens: cut at the end.

    transformers has no TapexTokenizer any more. It was the tokenizer of BART on this string.

    Args:
        cell_tokens: Tokens that are kept of a cell.
    """

    def __init__(self, cell_tokens: int) -> None:
        self.name = f"tapex-{cell_tokens}"
        self._cell_tokens = cell_tokens

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """BART's, whichever class the checkpoint names."""
        import transformers

        return transformers.BartTokenizer.from_pretrained(name, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """The tokens of ``<s> text col : a | b row 1 : x | y ... </s>``."""
        table, text = question
        assert isinstance(table, Table)
        rows = [[self._cut(cell, tokenizer) for cell in row] for row in table.rows]
        sequence = f"{text} {tapex_form(table.model_copy(update={'rows': rows}))}".lower()
        return dict(tokenizer(sequence, truncation=True, max_length=limit, split_special_tokens=True))

    def _cut(self, cell: str, tokenizer: Any) -> str:
        # A token has at least one character, except for letters of several tokens: short cells need no look.
        if len(cell.encode()) < self._cell_tokens:
            return cell
        places = tokenizer(cell, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return cell if len(places) < self._cell_tokens else cell[: places[self._cell_tokens - 1][1]]


class TapexConfig(ClassifierConfig):
    """Settings of TAPEX-Acc."""

    model: str | None = "microsoft/tapex-large-finetuned-tabfact"
    """Folder or hub name of a BartForSequenceClassification that was trained on tables in the form of TAPEX."""
    max_length: int = Field(default=1024, ge=8)
    """Tokens of text and table together; fewer where the model has a lower limit."""
    cell_tokens: int = Field(default=15, ge=1)
    """Tokens that are kept of a cell."""


@registry.register("tapex")
class Tapex(Entailment):
    """TAPEX-Acc: share of texts that TAPEX takes to follow from the table. Example: ``tapex``."""

    Config = TapexConfig
    needs = ("table", "text")
    title = "TAPEX-Acc"
    asks = "says that they follow from the table"

    def form(self) -> Form:
        """Text and table as one sequence."""
        return TapexSequence(self.config.cell_tokens)

    def questions(self, sample: Sample) -> list[Question]:
        """Table and text."""
        table, text = sample.need("table", "tapex"), sample.need("text", "tapex")
        return [(table, text)] if text.strip() and not is_empty(table) else []
