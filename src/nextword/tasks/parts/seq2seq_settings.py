"""What can be set of the task ``seq2seq``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nextword.config import Seed, Settings
from nextword.corpora.gaps import GapConfig


class Seq2SeqStartConfig(Settings):
    """The small T5 that all methods start from where no pretrained model is given."""

    data: str | None = None
    """Another folder or file to train it on, read like task.data, its training part; None: the training pairs."""
    d_model: int = Field(default=128, ge=4, le=100_000)
    """Width of the states; a multiple of num_heads."""
    d_ff: int = Field(default=384, ge=4, le=1_000_000)
    """Width inside the feed-forward layers."""
    num_layers: int = Field(default=2, ge=1, le=1000)
    """Layers of the encoder."""
    num_decoder_layers: int = Field(default=2, ge=1, le=1000)
    """Layers of the decoder."""
    num_heads: int = Field(default=4, ge=1, le=1000)
    """Attention heads."""
    feed_forward: Literal["gated-gelu", "relu"] = "gated-gelu"
    """Feed-forward layers of T5 1.1 or of the first T5."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout everywhere; a run of a few minutes sees each pair a few times and needs none."""
    steps: int = Field(default=2000, ge=1)
    """Optimiser steps."""
    batch_size: int = Field(default=16, ge=1)
    """Pairs of one step."""
    learning_rate: float = Field(default=5e-3, gt=0)
    """Highest learning rate."""


class GenerationConfig(Settings):
    """What is generated to measure copying."""

    pairs: int = Field(default=300, ge=1)
    """Test pairs, from the first, whose targets are generated."""
    beams: int = Field(default=1, ge=1, le=1000)
    """Beams; 1 is greedy."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Longest output; None: as long as the longest target."""


class Seq2SeqConfig(Settings):
    """What can be set; ``data`` must be."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files, or plain text as for the task lm."""
    source_field: str = "source"
    """Field of a JSON line that holds the source."""
    target_field: str = "target"
    """Field that holds the target."""
    split_field: str | None = None
    """Field of one .jsonl file that says train, validation or test; None: it is split by a hash of the source."""
    validation_share: float = Field(default=0.05, gt=0, lt=1)
    """Share of one .jsonl file that validates."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Share that tests; the rest trains."""
    gaps: GapConfig = GapConfig()
    """How pairs are made of plain text."""
    mask: str | None = None
    """Text in place of the sentence taken out; None: the tokenizer's mask token (in T5's, <extra_id_0>)."""
    source_prefix: str = ""
    """Text before every source, for pretrained models that expect one, such as "summarize: "."""
    seed: Seed = 0
    """Seed of the split by hash, of the samples below and of random gaps."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Training pairs at most, a sample; None: all."""
    validation_pairs: int | None = Field(default=500, ge=1)
    """Validation pairs at most."""
    test_pairs: int | None = Field(default=1000, ge=2)
    """Test pairs at most."""
    tuning_pairs: int = Field(default=100, ge=1)
    """Validation pairs on which a cache's temperature and weight are chosen."""
    max_source_tokens: int = Field(default=256, ge=8)
    """Longer sources are cut off at the end."""
    max_target_tokens: int = Field(default=64, ge=8)
    """Longer targets are cut off at the end."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on the training pairs."""
    vocabulary: int = Field(default=8000, ge=259)
    """Tokens of the trained BPE."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    frequent_words: int = Field(default=1000, ge=0)
    """Rare words are all but so many most frequent words of the training targets."""
    batch_size: int = Field(default=32, ge=1)
    """Pairs at a time in measurements."""
    generation: GenerationConfig = GenerationConfig()
    """What is generated."""
    start: Seq2SeqStartConfig = Seq2SeqStartConfig()
    """The start model where no pretrained one is given."""
