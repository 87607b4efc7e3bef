"""NLI accuracy: does a text follow from its table or document, asked of an entailment model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from nextword.evaluation.judges.classifier import Evidence
from nextword.evaluation.judges.entailment import Entailment, TableConfig
from nextword.evaluation.judges.tables import (
    READERS,
    is_empty,
    note_on_cells,
    row_form,
    sentence_form,
    tapex_form,
)
from nextword.evaluation.metrics import Sample, Table, registry

FORMS: dict[str, Callable[[Table], str]] = {"sentences": sentence_form, "rows": row_form, "tapex": tapex_form}
"""How a table is written down."""


class NliConfig(TableConfig):
    """Settings of NLI accuracy."""

    evidence: Literal["table", "source"] | None = None
    """The field that the text should follow from; None: the table of a sample that has one, else its source."""
    table_form: Literal["sentences", "rows", "tapex"] = "sentences"
    """How a table is written down: as LogicNLG describes it, as its NLI model reads it, or as TAPEX reads it."""


@registry.register("nli")
class Nli(Entailment):
    """NLI-Acc: share of texts that an entailment model takes to follow from table or source. Example: ``nli``."""

    Config = NliConfig
    needs = ("text",)
    title = "NLI-Acc"
    asks = "says that they follow from the evidence"

    def evidence(self, sample: Sample) -> Evidence:
        """The premise: table or document as text."""
        field = self.config.evidence or ("table" if sample.table is not None else "source")
        evidence = sample.need(field, "nli")
        if not isinstance(evidence, Table):
            return str(evidence)
        return "" if is_empty(evidence) else FORMS[self.config.table_form](READERS[self.config.cells](evidence))

    def described(self) -> str:
        """Model, output, length and form of tables."""
        return f"{super().described()}, tables in the form '{self.config.table_form}'{note_on_cells(self.config.cells)}"
