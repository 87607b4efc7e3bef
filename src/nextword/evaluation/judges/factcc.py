"""FactCC: does a summary agree with its document, asked of a classifier trained on changed sentences."""

from __future__ import annotations

from nextword.evaluation.judges.classifier import ClassifierConfig
from nextword.evaluation.judges.entailment import Entailment
from nextword.evaluation.judges.sentences import sentences_of
from nextword.evaluation.metrics import Sample, registry


class FactccConfig(ClassifierConfig):
    """Settings of FactCC."""

    model: str | None = "manueldeprada/FactCC"
    """Folder or hub name of the classifier; the default is the authors' checkpoint in the form of transformers."""
    sentences: bool = False
    """Whether each sentence of a summary is a claim of its own; the summary is consistent if all of them are."""


@registry.register("factcc")
class Factcc(Entailment):
    """FactCC: share of summaries that a classifier takes to agree with the document. Example: ``factcc``."""

    Config = FactccConfig
    needs = ("source", "text")
    title = "FactCC"
    asks = "says that they agree with the document"
    nameless_label = 0  # the official checkpoint was trained with CORRECT as 0, INCORRECT as 1

    def evidence(self, sample: Sample) -> str:
        """The document."""
        return str(sample.need("source", "factcc"))

    def claims(self, text: str) -> list[str]:
        """The summary, or each of its sentences."""
        return sentences_of(text) if self.config.sentences else [text]

    def described(self) -> str:
        """Model, output and length, and what a claim is."""
        return f"{super().described()}, {'each sentence' if self.config.sentences else 'the whole text'} as the claim"
