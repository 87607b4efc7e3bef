"""The small initial model (such as a GPT-2 or a T5) that a task trains if no pretrained model is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from nextword.experiments.tasks.task import Pretraining, Start
from nextword.inference.scoring.text_tokens import start_id
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import GPT2Config, PretrainedConfig, PreTrainedTokenizerBase, T5Config


class SmallStart(Start):
    """A small initial model: its tokenizer, configuration and training rows.

    ``tokenizer`` is called once. ``rows`` makes training rows from a tokenizer and a seed. ``training`` has ``steps``,
    ``batch_size`` and ``learning_rate``.
    """

    def __init__(
        self,
        tokenizer: Callable[[], PreTrainedTokenizerBase],
        architecture: Callable[[PreTrainedTokenizerBase], PretrainedConfig],
        rows: Callable[[PreTrainedTokenizerBase, int], Dataset],
        training: dict[str, Any],
    ) -> None:
        self._tokenizer = cache(tokenizer)
        self._rows = rows
        self.architecture, self.training = architecture, training

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The named tokenizer, or a tokenizer trained on the data."""
        return self._tokenizer()

    def pretraining(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Pretraining:
        """The model's configuration, its training rows and its training settings."""
        return Pretraining(self.architecture(tokenizer), self._rows(tokenizer, seed), self.training)


class StartSettings(Settings):
    """Settings with ``steps``, ``batch_size`` and ``learning_rate`` of a small model's training."""

    def training(self) -> dict[str, Any]:
        """``steps``, ``batch_size`` and ``learning_rate`` as a mapping."""
        return self.model_dump(include={"steps", "batch_size", "learning_rate"})


class Gpt2StartConfig(StartSettings):
    """The small initial GPT-2, used if no pretrained model is given."""

    n_layer: int = Field(default=3, ge=1, le=1000)
    """Number of transformer layers."""
    n_embd: int = Field(default=128, ge=4, le=100_000)
    """Width of the hidden states."""
    n_head: int = Field(default=4, ge=1)
    """Number of attention heads; must divide n_embd."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate. With the default steps, training reads a text about once and needs no dropout."""
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout rate of attention weights; none: the value of dropout."""
    tied: bool = True
    """Whether to tie input and output embeddings."""
    steps: int = Field(default=800, ge=0)
    """Optimiser steps; 0: every method begins with the same random weights."""
    batch_size: int = Field(default=8, ge=1)
    """Blocks per step."""
    learning_rate: float = Field(default=2e-3, gt=0)
    """Maximum learning rate."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd ({self.n_embd}) must be a multiple of n_head ({self.n_head})")
        return self

    def architecture(self, tokenizer: PreTrainedTokenizerBase, positions: int) -> GPT2Config:
        """Configuration of a GPT-2 of this size with the vocabulary of ``tokenizer`` and ``positions`` positions."""
        from transformers import GPT2Config

        start = start_id(tokenizer)
        end = start if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        attention = self.dropout if self.attention_dropout is None else self.attention_dropout
        return GPT2Config(
            vocab_size=len(tokenizer), n_positions=positions, n_embd=self.n_embd, n_layer=self.n_layer,
            n_head=self.n_head, bos_token_id=start, eos_token_id=end, pad_token_id=tokenizer.pad_token_id,
            resid_pdrop=self.dropout, embd_pdrop=self.dropout, attn_pdrop=attention, tie_word_embeddings=self.tied,
        )  # fmt: skip


class T5StartConfig(StartSettings):
    """The small initial T5, used if no pretrained model is given."""

    d_model: int = Field(default=128, ge=4, le=100_000)
    """Width of the hidden states; a multiple of num_heads."""
    d_ff: int = Field(default=384, ge=4, le=1_000_000)
    """Inner width of the feed-forward layers."""
    num_layers: int = Field(default=2, ge=1, le=1000)
    """Number of encoder layers."""
    num_decoder_layers: int = Field(default=2, ge=1, le=1000)
    """Number of decoder layers."""
    num_heads: int = Field(default=4, ge=1, le=1000)
    """Number of attention heads."""
    feed_forward: Literal["gated-gelu", "relu"] = "gated-gelu"
    """Kind of feed-forward layers: gated-gelu as in T5 1.1, or relu as in the original T5."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate. With the default steps, training reads each pair a few times and needs no dropout."""
    steps: int = Field(default=2000, ge=1)
    """Optimiser steps."""
    batch_size: int = Field(default=16, ge=1)
    """Pairs per step."""
    learning_rate: float = Field(default=5e-3, gt=0)
    """Maximum learning rate."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads})")
        return self

    def architecture(self, tokenizer: PreTrainedTokenizerBase, pad: int) -> T5Config:
        """Configuration of a T5 of this size with the vocabulary of ``tokenizer``. Every target begins with ``pad``."""
        from transformers import T5Config

        architecture = T5Config(
            vocab_size=len(tokenizer), d_model=self.d_model, d_kv=self.d_model // self.num_heads,
            d_ff=self.d_ff, num_layers=self.num_layers, num_decoder_layers=self.num_decoder_layers,
            num_heads=self.num_heads, feed_forward_proj=self.feed_forward, dropout_rate=self.dropout,
            pad_token_id=pad, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        architecture.decoder_start_token_id = pad  # as in all T5 models
        return architecture
