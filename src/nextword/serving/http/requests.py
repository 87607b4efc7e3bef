"""Requests to ``/v1/completions`` and ``/v1/chat/completions``."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nextword.inference.generation.strategies import Decoding
from nextword.serving.http.answer_forms import CHAT, TEXT, AnswerForm
from nextword.settings.config import LARGEST, expect_whole_characters_in, validated

R = TypeVar("R", bound="RequestPart")

TokenIds = Annotated[list[Annotated[int, Field(strict=True, ge=0, le=LARGEST)]], Field(min_length=1)]
"""Tokens of a text."""
RIVALS = 20
"""Maximum number of alternatives per token."""

_COLDEST = 1e-5
"""Temperature below which decoding is greedy, because scores divided by it would be NaN."""
_SAYS_WHO_ASKS = ("user", "metadata", "safety_identifier", "prompt_cache_key")
"""Fields of OpenAI's requests that are ignored."""
_WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "presence_penalty": (0,), "frequency_penalty": (0,), "logit_bias": ({},), "suffix": ("",),
    "response_format": ({"type": "text"},), "modalities": (["text"],), "audio": (), "prediction": (),
    "tools": ([],), "tool_choice": ("none", "auto"), "parallel_tool_calls": (True, False),
    "functions": ([],), "function_call": ("none", "auto"), "web_search_options": (),
    "reasoning_effort": ("none",), "store": (False,), "service_tier": ("auto", "default"),
}  # fmt: skip
"""Unsupported fields of OpenAI's requests, each with the values that have no effect and are therefore allowed."""


def read_request(kind: type[R], body: bytes) -> R:
    r"""Parses the JSON ``body`` into a request of class ``kind``. Half a character (``\ud83d`` alone) is an error.

    Raises:
        ValueError: If the request is invalid. The message names the field.
    """
    try:
        values = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as fault:
        with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            expect_whole_characters_in(json.loads(body))
        raise ValueError(f"the request must be JSON ({fault}); correct it") from None
    if not isinstance(values, dict):
        raise ValueError(f"the request must be a JSON object ({type(values).__name__} given); send fields with values")
    return validated(kind, values)


class RequestPart(BaseModel):
    """Base class of requests. A field that is null counts as left out, and unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        is_table = isinstance(values, Mapping)
        return {name: value for name, value in values.items() if value is not None} if is_table else values


class StreamOptions(RequestPart):
    """Options of a streamed response."""

    include_usage: bool = False
    """Whether the last event has the token counts."""


class AnswerRequest(RequestPart):
    """Settings that requests for completions and for chat completions share."""

    form: ClassVar[AnswerForm]
    """Format of the response."""

    model: str | None = None
    """Name of the served model. It may be left out."""
    temperature: float | None = Field(default=None, ge=0, le=100)
    """Temperature; 0: greedy. By default the model's generation_config decides, which may be greedy."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Sample from the fewest tokens that together have this probability; by default as in generation_config."""
    top_k: int | None = Field(default=None, ge=1)
    """Sample from this many most probable tokens; by default from all."""
    stop: list[Annotated[str, Field(min_length=1)]] = Field(default=[], max_length=64)
    """One string or several that end the answer."""
    n: int = Field(default=1, ge=1, le=128)
    """Number of answers per prompt."""
    seed: int | None = None
    """Random seed. The texts are the same as those of ``nextword generate`` with this seed and the same decoding."""
    stream: bool = False
    """Whether tokens are sent as soon as they are generated."""
    stream_options: StreamOptions = StreamOptions()
    """Options of a stream."""
    sources: bool = False
    """Whether to return, for each token, the share of each component and the positions with the largest shares."""
    draft: Literal["head", "prompt"] | None = None
    """Source of draft tokens for speculative decoding. Such a request runs outside the shared batches."""

    @model_validator(mode="before")
    @classmethod
    def _without_what_has_no_effect(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        for name, nothing in _WITHOUT_EFFECT.items():
            if values.get(name) is not None and values[name] not in nothing:
                raise ValueError(f"{name}: has no effect here, so it must be left out")
        return {name: value for name, value in values.items() if name not in (*_WITHOUT_EFFECT, *_SAYS_WHO_ASKS)}

    @field_validator("draft", mode="before")
    @classmethod
    def _by_its_old_name(cls, draft: Any) -> Any:
        return "head" if draft == "places" else draft

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
        """Maximum number of tokens of an answer."""
        raise NotImplementedError

    @property
    def alternatives(self) -> int | None:
        """Number of alternatives per token, with log-probabilities. None: no log-probabilities are returned."""
        raise NotImplementedError

    @property
    def echoes(self) -> bool:
        """Whether an answer begins with its prompt."""
        return False

    def rows(self, tokenizer: Any) -> list[list[int]]:
        """The tokens of each prompt. Raises ValueError if a prompt is empty."""
        raise NotImplementedError

    def decoding(self, base: Any) -> Decoding:
        """The decoding strategy. Defaults, except that of ``top_k``, are those of the generation_config ``base``."""
        draws = bool(base.do_sample) if self.temperature is None else self.temperature >= _COLDEST
        if not draws:
            return Decoding()
        temperature = base.temperature if self.temperature is None else self.temperature
        top_p = base.top_p if self.top_p is None else self.top_p
        return Decoding(sample=True, top_k=self.top_k, top_p=top_p, temperature=temperature or 1.0)


# -- Requests to ``/v1/chat/completions``, and the text that the tokenizer's chat template makes of them.

_LONGEST = 1024
"""Default maximum number of tokens of an answer, as in transformers."""


class TextPart(RequestPart):
    """A part of a message. Only text is supported."""

    type: Literal["text", "input_text", "output_text"]
    text: str


class ChatMessage(RequestPart):
    """A message of a conversation."""

    role: str
    """Role known to the chat template, usually "system", "user" or "assistant"."""
    content: list[TextPart] = Field(default=[])
    """Content: a text, or a list of text parts."""
    name: str | None = None
    """Name of the author, for templates that use it."""

    @field_validator("content", mode="before")
    @classmethod
    def _text_or_parts(cls, content: Any) -> Any:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def said(self) -> dict[str, str]:
        """The message as a mapping for the chat template. Its parts are joined with spaces."""
        content = " ".join(part.text for part in self.content)
        return {"role": self.role, "content": content, **({} if self.name is None else {"name": self.name})}


class ChatRequest(AnswerRequest):
    """A conversation to continue."""

    form: ClassVar[AnswerForm] = CHAT

    messages: list[ChatMessage] = Field(min_length=1)
    """Messages, oldest first."""
    max_tokens: int = Field(default=_LONGEST, ge=1)
    """Maximum number of tokens of the answer."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """OpenAI's newer name of max_tokens. If both are given, this one is used."""
    logprobs: bool = False
    """Whether to return log-probabilities."""
    top_logprobs: int = Field(default=0, ge=0, le=RIVALS)
    """Number of alternatives per token with their log-probabilities."""
    chat_template_kwargs: dict[str, Any] = Field(default={})
    """Variables for the chat template."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs: must be sent with logprobs=true")
        return self

    @property
    def most(self) -> int:
        """See ``AnswerRequest.most``."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def alternatives(self) -> int | None:
        """See ``AnswerRequest.alternatives``."""
        return self.top_logprobs if self.logprobs else None

    def rows(self, tokenizer: Any) -> list[list[int]]:
        """See ``AnswerRequest.rows``. The template makes one prompt from the messages.

        Raises:
            ValueError: If there is no chat template, or it rejects these messages.
        """
        if getattr(tokenizer, "chat_template", None) is None:
            raise ValueError("messages: must not be sent to a model without a chat template; use /v1/completions")
        for name in self.chat_template_kwargs:
            if name in inspect.signature(tokenizer.apply_chat_template).parameters:
                raise ValueError(f"chat_template_kwargs: must be variables of the template ('{name}' given)")
        said = [message.said() for message in self.messages]
        try:
            read = tokenizer.apply_chat_template(
                said, add_generation_prompt=True, return_dict=True, **self.chat_template_kwargs
            )
        except Exception as fault:  # a template is a program, and may raise any error
            raise ValueError(f"messages: the model's chat template rejects them ({fault})") from fault
        if not read["input_ids"]:
            raise ValueError("messages: must have a token (none in their text); write a word")
        return [list(read["input_ids"])]


# -- Requests to ``/v1/completions``: OpenAI's fields, and nextword's fields ``sources``, ``top_k`` and ``draft``.


class CompletionRequest(AnswerRequest):
    """Texts to continue."""

    form: ClassVar[AnswerForm] = TEXT

    prompt: list[Annotated[str, Field(min_length=1)] | TokenIds] = Field(min_length=1)
    """A text, token ids, or a list of either."""
    max_tokens: int = Field(default=256, ge=0)
    """Maximum number of tokens of the answer. 0 with ``echo``: return only the prompt."""
    logprobs: int | None = Field(default=None, ge=0, le=RIVALS)
    """Number of alternatives per token, with log-probabilities. By default no log-probabilities are returned."""
    echo: bool = False
    """Whether the answer begins with the prompt, with log-probabilities of its tokens."""
    best_of: int | None = None
    """Number of answers to choose from. It must equal ``n``, because answers are not ranked."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _one_prompt_or_several(cls, prompt: Any) -> Any:
        is_one = isinstance(prompt, str) or (isinstance(prompt, list) and prompt and isinstance(prompt[0], int))
        if prompt == "" or (isinstance(prompt, list) and "" in prompt):
            raise ValueError("must have text or token ids ('' given); write something to continue")
        return [prompt] if is_one else prompt

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if not self.max_tokens and not self.echo:
            raise ValueError("max_tokens: must be at least 1 (0 given) where echo is not true")
        if self.best_of not in (None, self.n):
            raise ValueError(f"best_of: must be n, which is {self.n} ({self.best_of} given); leave it out")
        return self

    @property
    def most(self) -> int:
        """See ``AnswerRequest.most``."""
        return self.max_tokens

    @property
    def alternatives(self) -> int | None:
        """See ``AnswerRequest.alternatives``."""
        return self.logprobs

    @property
    def echoes(self) -> bool:
        """See ``AnswerRequest.echoes``."""
        return self.echo

    def rows(self, tokenizer: Any) -> list[list[int]]:
        """See ``AnswerRequest.rows``."""
        rows = [tokenizer(one)["input_ids"] if isinstance(one, str) else one for one in self.prompt]
        if not all(rows):
            raise ValueError("prompt: must have a token (none in this text); write a word")
        return rows
