"""What can be set of the start of the task ``expand``, and of the texts that methods write for it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nextword.experiments.tasks.parts.gpt2_start import Gpt2StartConfig
from nextword.inference.generation.strategies import Decoding
from nextword.inference.generation.writing_settings import Texts, WritingConfig
from nextword.results.records import WITH_PROMPT

METRICS: tuple[str | dict[str, Any], ...] = ("likelihood:mean", "rouge:1,2,l", "topics")
"""Perplexity (the mean over articles is the report's), ROUGE F1 and the divergence of topics: the columns of the
report's table 1."""


class ExpandStartConfig(Gpt2StartConfig):
    """The small GPT-2 that all methods start from where no pretrained model is given, and its text."""

    data: list[str] = Field(default=[])
    """Further text to train it on beside the training articles: text files, which are taken whole, or folders, of which
    the training part is taken."""
    block: int = Field(default=256, ge=2)
    """Tokens of one of its training rows."""
    prompted_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the articles before which their summary stands in its text, as in the setting with a prompt."""


class ExpandGenerationConfig(WritingConfig):
    """What is written from the summaries of the test pairs, and how it is measured."""

    prompts: int = Field(default=100, ge=0)
    """Test pairs, from the first, for which texts are written; 0: none."""
    batch_size: int = Field(default=32, ge=1)
    """Texts written at a time."""
    decodings: list[Decoding] = Field(default=[Decoding(top_k=40)], min_length=1)
    """Ways to write, each without prompt and with the summary as prompt."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later."""

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        if not self.prompts:
            return None
        return self.texts_after("", WITH_PROMPT)
