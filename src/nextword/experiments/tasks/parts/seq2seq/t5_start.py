"""The small T5 that a comparison on pairs starts from where no pretrained model is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from nextword.settings.config import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, T5Config


class T5StartConfig(Settings):
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

    def training(self) -> dict[str, Any]:
        """Settings of its training."""
        return {"steps": self.steps, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
