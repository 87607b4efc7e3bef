"""What a request to ``/v1/completions`` may hold: OpenAI's fields, and ``sources``, ``top_k`` and ``draft`` of ours."""

from __future__ import annotations

import copy
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class CompletionRequest(BaseModel):
    """A request. Fields of OpenAI that would have no effect are refused rather than left unread."""

    model_config = ConfigDict(extra="forbid")

    prompt: str | list[int] = Field(min_length=1)
    """A text, or token ids."""
    model: str | None = None
    """Name of the served model; may be left out."""
    max_tokens: int = Field(default=256, ge=1)
    """Tokens of the answer at most."""
    temperature: float | None = Field(default=None, ge=0, le=100)
    """0: greedy. By default what the model's generation_config says."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """The likeliest tokens that have this much probability together."""
    top_k: int | None = Field(default=None, ge=1)
    """The so many likeliest tokens."""
    stop: str | list[str] | None = None
    """Texts that end the answer, up to four."""
    stream: bool = False
    """Whether tokens are sent as they are written."""
    logprobs: int | None = Field(default=None, ge=0, le=20)
    """How many rivals of each token are named, with log-probabilities."""
    sources: bool = False
    """Whether each token says which parts of the distribution its probability came from, and which places."""
    draft: Literal["places", "prompt"] | None = None
    """Who guesses words, of which one pass judges several. Such a request is written apart from the shared batches."""
    echo: Literal[False] = False
    n: Literal[1] = 1
    best_of: Literal[1] = 1
    presence_penalty: Literal[0] = 0
    frequency_penalty: Literal[0] = 0
    suffix: None = None
    user: str | None = None

    @property
    def stops(self) -> list[str]:
        """Texts that end the answer."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or [])[:4]

    @property
    def asks_facts(self) -> bool:
        """Whether the model is asked about the tokens that it has written."""
        return self.logprobs is not None or self.sources

    def generation(self, base: Any) -> Any:
        """The generation config of this request, from that of the model."""
        made = copy.deepcopy(base)
        made.max_new_tokens = self.max_tokens
        if self.temperature is not None:
            made.do_sample, made.temperature = self.temperature > 0, self.temperature or None
        made.top_k = self.top_k
        made.top_p = self.top_p if self.top_p is not None else (made.top_p if made.do_sample else None)
        return made
