"""What can be set of the measurement of texts."""

from __future__ import annotations

from typing import Self

from pydantic import AliasChoices, Field, model_validator

from nextword.settings.config import Settings


class ScoreSettings(Settings):
    """How texts are scored; all have defaults."""

    window: int | None = Field(default=None, ge=1)
    """Tokens that a model sees at once; by default its positions, at most 4,096, and 1,024 where it has no limit."""
    stride: int | None = Field(default=None, ge=1)
    """New tokens that each window after the first scores, so that they have at least window - stride tokens before
    them; by default half of the window."""
    batch_size: int = Field(default=8, ge=1)
    """Windows at a time."""
    limit: int | None = Field(default=None, ge=1)
    """Score only the beginning of the texts: about so many tokens of the first model. Every model scores the same
    text; by default all of it."""
    counts: str | None = None
    """File of 'nextword count' that says how frequent tokens are; by default they are counted in the scored texts."""
    span: int = Field(default=3, ge=2)
    """Tokens that a copied span has at least."""
    positions: int = Field(default=5, ge=0, validation_alias=AliasChoices("positions", "places"))  # its old name
    """In the file of tokens: positions named for each token, strongest first, where a head points at positions."""

    @model_validator(mode="after")
    def _stride_fits(self) -> Self:
        if self.stride is not None and self.window is not None and self.stride > self.window:
            raise ValueError(f"stride: must be at most the window of {self.window} ({self.stride} given)")
        return self
