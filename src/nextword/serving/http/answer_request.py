"""What requests to ``/v1/completions`` and ``/v1/chat/completions`` have in common: how they are read and written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nextword.serving.http.answer_forms import AnswerForm
from nextword.settings.config import LARGEST, expect_whole_characters_in, validated

R = TypeVar("R", bound="RequestPart")

TokenIds = Annotated[list[Annotated[int, Field(strict=True, ge=0, le=LARGEST)]], Field(min_length=1)]
"""Tokens of a text."""
RIVALS = 20
"""Most rivals of a token that are named."""

_COLDEST = 1e-5
"""Below this temperature the likeliest token is taken: scores over a smaller one are no numbers any more."""
_SAYS_WHO_ASKS = ("user", "metadata", "safety_identifier", "prompt_cache_key")
"""Fields of OpenAI that do not say what is asked for."""
_WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "presence_penalty": (0,), "frequency_penalty": (0,), "logit_bias": ({},), "suffix": ("",),
    "response_format": ({"type": "text"},), "modalities": (["text"],), "audio": (), "prediction": (),
    "tools": ([],), "tool_choice": ("none", "auto"), "parallel_tool_calls": (True, False),
    "functions": ([],), "function_call": ("none", "auto"), "web_search_options": (),
    "reasoning_effort": ("none",), "store": (False,), "service_tier": ("auto", "default"),
}  # fmt: skip
"""Fields of OpenAI that nothing here acts on, each with the values that ask for nothing."""


def read_request(kind: type[R], body: bytes) -> R:
    r"""A request from its bytes.

    Args:
        kind: What it must be.
        body: JSON. Half of a character (``\ud83d`` alone) is none.

    Raises:
        ValueError: It is not; says where.
    """
    try:
        values = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as fault:
        with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            expect_whole_characters_in(json.loads(body))
        raise ValueError(f"the request must be JSON ({fault}); correct it there") from None
    if not isinstance(values, dict):
        raise ValueError(f"the request must be a JSON object ({type(values).__name__} given); send fields with values")
    return validated(kind, values)


def _is_table(values: Any) -> bool:
    return isinstance(values, Mapping)


class RequestPart(BaseModel):
    """Fields with values. What is null is as left out; what nobody reads is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        return {name: value for name, value in values.items() if value is not None} if _is_table(values) else values


@dataclass(frozen=True)
class Sampling:
    """How the tokens of an answer are chosen, under the names of ``generate``.

    Attributes:
        do_sample: Whether they are drawn; else each is the likeliest.
        max_new_tokens: How many at most.
        temperature: Log-probabilities are divided by it.
        top_k: Drawn from so many; 0: all.
        top_p: Drawn from the likeliest that have this much probability together.
    """

    do_sample: bool
    max_new_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


class StreamOptions(RequestPart):
    """What a stream has besides the answer."""

    include_usage: bool = False
    """Whether its last event counts the tokens."""


class AnswerRequest(RequestPart):
    """How an answer is written, however its prompt is given."""

    form: ClassVar[AnswerForm]
    """What it looks like."""

    model: str | None = None
    """Name of the served model; may be left out."""
    temperature: float | None = Field(default=None, ge=0, le=100)
    """0: greedy. By default what the model's generation_config says."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """The likeliest tokens that have this much probability together."""
    top_k: int | None = Field(default=None, ge=1)
    """The so many likeliest tokens."""
    stop: list[Annotated[str, Field(min_length=1)]] = Field(default=[], max_length=64)
    """A text that ends the answer, or several."""
    n: int = Field(default=1, ge=1, le=128)
    """Answers to each prompt."""
    seed: int | None = None
    """Makes what is drawn the same again: the texts of ``nextword generate`` with this seed."""
    stream: bool = False
    """Whether tokens are sent as they are written."""
    stream_options: StreamOptions = StreamOptions()
    """Of a stream."""
    sources: bool = False
    """Whether each token says which parts of the distribution its probability came from, and which places."""
    draft: Literal["places", "prompt"] | None = None
    """Who guesses words, of which one pass judges several. Such a request is written apart from the shared batches."""

    @model_validator(mode="before")
    @classmethod
    def _without_what_has_no_effect(cls, values: Any) -> Any:
        if not _is_table(values):
            return values
        for name, nothing in _WITHOUT_EFFECT.items():
            if values.get(name) is not None and values[name] not in nothing:
                raise ValueError(f"{name}: has no effect here, so it must be left out")
        return {name: value for name, value in values.items() if name not in (*_WITHOUT_EFFECT, *_SAYS_WHO_ASKS)}

    @field_validator("stop", mode="before")
    @classmethod
    def _one_stop_or_several(cls, stop: Any) -> Any:
        return [stop] if isinstance(stop, str) else stop

    @model_validator(mode="after")
    def _options_of_a_stream(self) -> Self:
        if "stream_options" in self.model_fields_set and not self.stream:
            raise ValueError("stream_options: must be sent with stream=true")
        return self

    @property
    def most(self) -> int:
        """Tokens of an answer at most."""
        raise NotImplementedError

    @property
    def rivals(self) -> int | None:
        """How many rivals of each token are named, with log-probabilities; None: no log-probabilities."""
        raise NotImplementedError

    @property
    def echoes(self) -> bool:
        """Whether an answer begins with its prompt."""
        return False

    def rows(self, tokenizer: Any) -> list[list[int]]:
        """The tokens of each prompt.

        Raises:
            ValueError: A prompt has none.
        """
        raise NotImplementedError

    def sampling(self, base: Any, room: int) -> Sampling:
        """How tokens are chosen, where the model's own generation config is ``base`` and there is room for so many."""
        draws = bool(base.do_sample) if self.temperature is None else self.temperature >= _COLDEST
        if not draws:
            return Sampling(False, min(self.most, room))
        temperature = base.temperature if self.temperature is None else self.temperature
        top_p = base.top_p if self.top_p is None else self.top_p
        return Sampling(
            True, min(self.most, room), temperature or 1.0, self.top_k or 0, 1.0 if top_p is None else top_p
        )
