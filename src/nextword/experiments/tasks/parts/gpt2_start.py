"""The small GPT-2 that a comparison on a text starts from where no pretrained model is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from nextword.inference.scoring.prompt_encoding import start_id
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from transformers import GPT2Config, PreTrainedTokenizerBase


class Gpt2StartConfig(Settings):
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

    def training(self) -> dict[str, Any]:
        """Settings of its training."""
        return {"steps": self.steps, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
