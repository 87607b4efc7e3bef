"""What can be set of the task ``expand``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from nextword.config import Seed, Settings
from nextword.decoding.continuations import WritingConfig
from nextword.decoding.strategies import Decoding, Texts
from nextword.records import WITH_PROMPT
from nextword.tasks.parts.gpt2_start import Gpt2StartConfig

METRICS: tuple[str | dict[str, Any], ...] = ("likelihood:mean", "rouge:1,2,l", "topics")
"""Perplexity (the mean over articles is the report's), ROUGE F1 and the divergence of topics: the columns of the
report's table 1."""


@dataclass(frozen=True)
class SummaryWriting:
    """A decoding, with the summary as prompt or without any.

    >>> SummaryWriting(Decoding(top_k=40), prompted=True).title
    'top-k 40, with prompt'
    """

    decoding: Decoding
    prompted: bool

    @property
    def title(self) -> str:
        """What a table calls it."""
        return f"{self.decoding.title}{WITH_PROMPT}" if self.prompted else self.decoding.title

    @property
    def is_sampled(self) -> bool:
        """Whether tokens are drawn."""
        return self.decoding.is_sampled


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
        ways = tuple(SummaryWriting(one, prompted) for one in self.decodings for prompted in (False, True))
        return Texts(ways, tuple(self.metrics), None if self.wins is None else tuple(self.wins), self.examples)


class ExpandConfig(Settings):
    """What can be set; ``data`` must be."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files, or a folder with .story files, whose
    highlights are the summary."""
    summary_field: str = "highlights"
    """Field of a JSON line that holds the summary."""
    article_field: str = "article"
    """Field that holds the article."""
    split_field: str | None = None
    """Field of one .jsonl file that says train, validation or test; None: it is split by a hash of the article."""
    validation_share: float = Field(default=0.05, gt=0, lt=1)
    """Share of the pairs of one .jsonl file, or of a folder of stories, that validates."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Share that tests; the rest trains."""
    seed: Seed = 0
    """Seed of the split by hash, of the samples and slices below, and of the shuffled summaries."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Training pairs at most, a sample; None: all."""
    validation_pairs: int | None = Field(default=500, ge=1)
    """Validation pairs at most."""
    test_pairs: int | None = Field(default=1000, ge=2)
    """Test pairs at most."""
    tuning_pairs: int = Field(default=100, ge=1)
    """Validation pairs on which a cache's temperature and weight are chosen."""
    length: int = Field(default=128, ge=2)
    """Tokens of a training slice, of the beginning of a test article that is scored, and of a written text; shorter
    articles are left out."""
    prompt_tokens: int = Field(default=96, ge=1)
    """Tokens of a summary as prompt; longer ones are cut off at the end, as prompts only."""
    prompted_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the training rows that begin with their summary as prompt, another choice in each epoch."""
    encoder: str | None = None
    """Folder or hub name of the encoder that reads the summaries; None or "minilm": all-MiniLM-L6-v2 from its package,
    where that is installed."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on all that models are trained on."""
    vocabulary: int = Field(default=8000, ge=258)
    """Tokens of the trained BPE."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Articles at a time in measurements."""
    generation: ExpandGenerationConfig = ExpandGenerationConfig()
    """Texts that every method writes."""
    start: ExpandStartConfig = ExpandStartConfig()
    """The start model where no pretrained one is given."""
