"""The small model that a task trains from scratch where no pretrained one is given: any, a GPT-2, a T5."""

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
    """A tokenizer, a small model for its tokens, and what that is trained on.

    ``tokenizer`` is called once; ``rows`` makes rows by tokenizer and seed; ``training`` has ``steps``, ``batch_size``
    and ``learning_rate``.
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
        """The tokenizer that was named, or one made from the data."""
        return self._tokenizer()

    def pretraining(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Pretraining:
        """The configuration, the rows and the settings of the training."""
        return Pretraining(self.architecture(tokenizer), self._rows(tokenizer, seed), self.training)


class StartSettings(Settings):
    """Training of a small model, with ``steps``, ``batch_size`` and ``learning_rate``."""

    def training(self) -> dict[str, Any]:
        """Settings of its training."""
        return self.model_dump(include={"steps", "batch_size", "learning_rate"})


class Gpt2StartConfig(StartSettings):
    """The small GPT-2 that all methods start from where no pretrained model is given."""

    n_layer: int = Field(default=3, ge=1, le=1000)
    """Transformer layers."""
    n_embd: int = Field(default=128, ge=4, le=100_000)
    """Width of the states."""
    n_head: int = Field(default=4, ge=1)
    """Attention heads; must divide n_embd."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout everywhere; a run of a few minutes sees the text about once and needs none."""
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout of attention weights; None: as everywhere."""
    tied: bool = True
    """Whether input and output embeddings are one matrix."""
    steps: int = Field(default=800, ge=0)
    """Optimiser steps; 0: every method starts from the same random weights."""
    batch_size: int = Field(default=8, ge=1)
    """Blocks of one step."""
    learning_rate: float = Field(default=2e-3, gt=0)
    """Highest learning rate."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd ({self.n_embd}) must be a multiple of n_head ({self.n_head})")
        return self

    def architecture(self, tokenizer: PreTrainedTokenizerBase, positions: int) -> GPT2Config:
        """A GPT-2 of this size for the tokens of ``tokenizer``, that sees ``positions`` of them at once."""
        from transformers import GPT2Config

        end = start_id(tokenizer)
        attention = self.dropout if self.attention_dropout is None else self.attention_dropout
        return GPT2Config(
            vocab_size=len(tokenizer), n_positions=positions, n_embd=self.n_embd, n_layer=self.n_layer,
            n_head=self.n_head, bos_token_id=end, eos_token_id=end, pad_token_id=tokenizer.pad_token_id,
            resid_pdrop=self.dropout, embd_pdrop=self.dropout, attn_pdrop=attention, tie_word_embeddings=self.tied,
        )  # fmt: skip


class T5StartConfig(StartSettings):
    """The small T5 that all methods start from where no pretrained model is given."""

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

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads})")
        return self

    def architecture(self, tokenizer: PreTrainedTokenizerBase, pad: int) -> T5Config:
        """A T5 of this size for the tokens of ``tokenizer``, which begins every target with ``pad``."""
        from transformers import T5Config

        architecture = T5Config(
            vocab_size=len(tokenizer), d_model=self.d_model, d_kv=self.d_model // self.num_heads,
            d_ff=self.d_ff, num_layers=self.num_layers, num_decoder_layers=self.num_decoder_layers,
            num_heads=self.num_heads, feed_forward_proj=self.feed_forward, dropout_rate=self.dropout,
            pad_token_id=pad, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        architecture.decoder_start_token_id = pad  # as in every T5
        return architecture
