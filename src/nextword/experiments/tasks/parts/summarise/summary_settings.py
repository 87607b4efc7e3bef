"""What can be set of the start of the task ``summarise``, and of the summaries that methods write for it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nextword.experiments.tasks.parts.seq2seq.t5_start import T5StartConfig
from nextword.inference.generation.strategies import Decoding, PromptedDecoding
from nextword.inference.generation.writing_settings import Texts, WritingConfig

METRICS: tuple[str | dict[str, Any], ...] = ("rouge:1,2,l", "cider", "copying")
"""Those that ask no trained model. Softmax-CPR's figure 4 also has mauve and factcc, HistAlign's table 5 also entities,
factcc and dae."""


class SummaryStartConfig(T5StartConfig):
    """The small T5 that all methods start from where no pretrained model is given, and what it is trained on."""

    data: list[str] = Field(default=[])
    """Further documents beside the training documents: data sets like task.data, of which the training documents are
    taken, or text files, which are taken whole. Of all of them sentences are taken out, which it learns to write."""


class SummaryGenerationConfig(WritingConfig):
    """What is written from the test documents, and how it is measured."""

    summaries: int = Field(default=200, ge=0)
    """Test documents, from the first, of which summaries are written; 0: none."""
    decodings: list[Decoding] = Field(default=[Decoding(beams=4)], min_length=1)
    """Ways to write: "beam:B", "greedy", "top-p:P" and the like."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest summary; None: as long as the longest target."""
    min_tokens: int = Field(default=0, ge=0)
    """Shortest summary: before, the model cannot end it."""
    length_penalty: float = 1.0
    """Beams are ranked by their log-probability divided by their length to this power: above 1 favours long ones."""
    no_repeat_ngram: int = Field(default=0, ge=0)
    """No n-gram of this length comes twice in a summary; 0: any may."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later. Judges are models, which may be named by
    folder: {metric = "factcc", model = "FOLDER"}."""

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        if not self.summaries:
            return None
        ways = tuple(PromptedDecoding(decoding) for decoding in self.decodings)
        return Texts(ways, tuple(self.metrics), None if self.wins is None else tuple(self.wins), self.examples)

    def search(self) -> dict[str, Any]:
        """Limits of what is written, as arguments of transformers' ``generate``; without limits none."""
        limits: dict[str, Any] = {}
        if self.min_tokens:
            limits["min_new_tokens"] = self.min_tokens
        if self.no_repeat_ngram:
            limits["no_repeat_ngram_size"] = self.no_repeat_ngram
        if any(decoding.beams > 1 for decoding in self.decodings):
            # the published configurations of T5 and BART stop as soon as there are as many ended texts as beams
            limits |= {"length_penalty": self.length_penalty, "early_stopping": True}
        return limits
