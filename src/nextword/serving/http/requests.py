"""What requests to ``/v1/completions`` and ``/v1/chat/completions`` have in common: how they are read and written."""

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
"""Most alternatives of a token that are named."""

_COLDEST = 1e-5
"""Below this temperature the likeliest token is taken: scores over a smaller one are NaN."""
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
    r"""A request of this kind from its bytes, JSON, of which half of a character (``\ud83d`` alone) is none.

    Raises:
        ValueError: They are not; says where.
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


class RequestPart(BaseModel):
    """Fields with values. What is null is as left out; what nobody reads is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        is_table = isinstance(values, Mapping)
        return {name: value for name, value in values.items() if value is not None} if is_table else values


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
    """Makes sampling repeatable: the texts of ``nextword generate`` with this seed."""
    stream: bool = False
    """Whether tokens are sent as they are written."""
    stream_options: StreamOptions = StreamOptions()
    """Options of a stream."""
    sources: bool = False
    """Whether each token says which parts of the distribution its probability came from, and which positions."""
    draft: Literal["head", "prompt"] | None = None
    """Source of draft tokens, of which one pass verifies several. Such a request is written apart from the shared
    batches."""

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
        """Tokens of an answer at most."""
        raise NotImplementedError

    @property
    def alternatives(self) -> int | None:
        """How many alternatives of each token are named, with log-probabilities; None: no log-probabilities."""
        raise NotImplementedError

    @property
    def echoes(self) -> bool:
        """Whether an answer begins with its prompt."""
        return False

    def rows(self, tokenizer: Any) -> list[list[int]]:
        """The tokens of each prompt; ValueError where one has none."""
        raise NotImplementedError

    def decoding(self, base: Any) -> Decoding:
        """How tokens are chosen, where the model's own generation config is ``base``."""
        draws = bool(base.do_sample) if self.temperature is None else self.temperature >= _COLDEST
        if not draws:
            return Decoding()
        temperature = base.temperature if self.temperature is None else self.temperature
        top_p = base.top_p if self.top_p is None else self.top_p
        return Decoding(sample=True, top_k=self.top_k, top_p=top_p, temperature=temperature or 1.0)


# -- What a request to ``/v1/chat/completions`` may hold, and the text that the tokenizer's chat template makes of it.

_LONGEST = 1024
"""Tokens of an answer by default; transformers' number."""


class TextPart(RequestPart):
    """A part of what is said; there are texts alone."""

    type: Literal["text", "input_text", "output_text"]
    text: str


class ChatMessage(RequestPart):
    """What somebody said."""

    role: str
    """Who: what the template knows, in most "system", "user" and "assistant"."""
    content: list[TextPart] = Field(default=[])
    """What: a text, or parts of one."""
    name: str | None = None
    """For templates that read it."""

    @field_validator("content", mode="before")
    @classmethod
    def _text_or_parts(cls, content: Any) -> Any:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def said(self) -> dict[str, str]:
        """As a template reads it: parts are joined by spaces."""
        content = " ".join(part.text for part in self.content)
        return {"role": self.role, "content": content, **({} if self.name is None else {"name": self.name})}


class ChatRequest(AnswerRequest):
    """A conversation to continue."""

    form: ClassVar[AnswerForm] = CHAT

    messages: list[ChatMessage] = Field(min_length=1)
    """What was said, the oldest first."""
    max_tokens: int = Field(default=_LONGEST, ge=1)
    """Tokens of the answer at most."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """OpenAI's newer name of it; counts where both are given."""
    logprobs: bool = False
    """Whether each token has its log-probability."""
    top_logprobs: int = Field(default=0, ge=0, le=RIVALS)
    """How many alternatives of each token are named with theirs."""
    chat_template_kwargs: dict[str, Any] = Field(default={})
    """Variables of the template."""

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
        """See ``AnswerRequest.rows``: the template makes one prompt.

        Raises:
            ValueError: There is no template, or it does not take these messages.
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
        except Exception as fault:  # a template is a program, which may fail in any way
            raise ValueError(f"messages: the model's chat template does not take them ({fault})") from fault
        if not read["input_ids"]:
            raise ValueError("messages: must have a token (none in their text); write a word")
        return [list(read["input_ids"])]


# -- What a request to ``/v1/completions`` may hold: OpenAI's fields, and ``sources``, ``top_k`` and ``draft`` of
# ours.


class CompletionRequest(AnswerRequest):
    """Texts to continue."""

    form: ClassVar[AnswerForm] = TEXT

    prompt: list[Annotated[str, Field(min_length=1)] | TokenIds] = Field(min_length=1)
    """A text or token ids, or several."""
    max_tokens: int = Field(default=256, ge=0)
    """Tokens of the answer at most; 0 with ``echo``: the prompt alone."""
    logprobs: int | None = Field(default=None, ge=0, le=RIVALS)
    """How many alternatives of each token are named, with log-probabilities."""
    echo: bool = False
    """Whether the answer begins with the prompt, of whose tokens log-probabilities are given too."""
    best_of: int | None = None
    """Must be ``n``: the answers are not ranked."""

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
