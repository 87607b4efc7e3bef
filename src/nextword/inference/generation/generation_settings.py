"""What can be set of the texts that a model writes: decodings, seeds, lengths, arguments of ``generate``."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from nextword.inference.generation.strategies import Decoding
from nextword.settings.config import Seed, Settings
from nextword.settings.setting_names import named

HAVE_A_SETTING = {
    "max_new_tokens": "max_new_tokens",
    "max_length": "max_new_tokens",
    "min_new_tokens": "min_new_tokens",
    "min_length": "min_new_tokens",
    "stop_strings": "stop",
    "num_return_sequences": "samples",
}
"""Arguments of ``generate`` that settings stand for."""


class GenerationSettings(Settings):
    """How texts are written."""

    decodings: list[Decoding] = Field(default=[])
    """Ways to write, as "greedy", "top-k:3" or settings in full; none: as the model's own generation_config says."""
    arguments: dict[str, JsonValue] = Field(default={})
    """Further arguments of generate, for all of them, for instance {repetition_penalty = 1.2}."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a text; by default what the model's generation_config says, else 100."""
    min_new_tokens: int | None = Field(default=None, ge=0)
    """Least tokens of a text: until then no end token is written."""
    stop: list[str] = Field(default=[])
    """Strings that end a text, which keeps them."""
    seeds: list[Seed] = Field(default=[0], min_length=1)
    """Seeds of what is drawn; one samples file each."""
    samples: int = Field(default=1, ge=1)
    """Texts drawn after each prompt."""
    batch_size: int = Field(default=16, ge=1)
    """Texts written at a time."""
    draft: str | None = None
    """Who guesses words that one pass then judges: "places", "prompt", or the folder of a model; none: word by word."""
    remember: int = Field(default=0, ge=0)
    """With the head knn: of the finished prompts and texts of a pass, so many of the last tokens can be retrieved by
    those that follow; texts are then written one at a time, in the order of the prompts. 0: none."""
    sources: bool = False
    """Whether each token's share by source and its strongest places are worked out and written beside it."""
    places: int = Field(default=3, ge=0)
    """How many places are named of each token, where sources are asked for."""

    @field_validator("arguments")
    @classmethod
    def _not_settings(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        for name in arguments:
            if name in HAVE_A_SETTING:
                raise ValueError(f"'{name}' has a setting of its own; give {named(HAVE_A_SETTING[name])}")
        return arguments

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        for name, values in (("decodings", [one.title for one in self.decodings]), ("seeds", self.seeds)):
            twice = [value for number, value in enumerate(values) if value in values[:number]]
            if twice:
                raise ValueError(f"{name}: '{twice[0]}' is given twice")
        if "" in self.stop:
            raise ValueError("stop: must be a text ('' given)")
        return self
