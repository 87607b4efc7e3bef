"""Settings of scoring."""

from __future__ import annotations

from typing import Self

from pydantic import AliasChoices, Field, model_validator

from nextword.settings.config import Settings


class ScoreSettings(Settings):
    """Settings of scoring. Each has a default value."""

    window: int | None = Field(default=None, ge=1)
    """Number of tokens per window; by default the model's number of positions, at most 4,096, or 1,024 if it has no
    limit."""
    stride: int | None = Field(default=None, ge=1)
    """Number of new tokens that each window after the first scores. Each of these tokens has at least window - stride
    tokens before it. By default half the window."""
    batch_size: int = Field(default=8, ge=1)
    """Number of windows per pass."""
    limit: int | None = Field(default=None, ge=1)
    """Approximate number of tokens (of the first model) to score from the beginning of the texts. All models score the
    same text. By default all."""
    counts: str | None = None
    """File of 'nextword count' with token counts; by default tokens are counted in the scored texts."""
    span: int = Field(default=3, ge=2)
    """Smallest length in tokens of a copied span, which is a sequence that the model has read before."""
    positions: int = Field(default=5, ge=0, validation_alias=AliasChoices("positions", "places"))  # its old name
    """Number of positions listed per token in the file of tokens, strongest first, if a head points at positions."""

    @model_validator(mode="after")
    def _stride_fits(self) -> Self:
        if self.stride is not None and self.window is not None and self.stride > self.window:
            raise ValueError(f"stride: must be at most the window of {self.window} ({self.stride} given)")
        return self
