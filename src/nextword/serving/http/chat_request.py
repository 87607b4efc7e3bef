"""What a request to ``/v1/chat/completions`` may hold, and the text that the tokenizer's chat template makes of it."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from nextword.serving.http.answer_forms import CHAT, AnswerForm
from nextword.serving.http.answer_request import RIVALS, AnswerRequest, RequestPart

_LONGEST = 1024
"""Tokens of an answer where nothing is said; transformers' number."""


class TextPart(RequestPart):
    """A part of what is said; there are texts alone."""

    type: Literal["text", "input_text", "output_text"]
    text: str


class Message(RequestPart):
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
    """A conversation to go on with."""

    form: ClassVar[AnswerForm] = CHAT

    messages: list[Message] = Field(min_length=1)
    """What was said, the oldest first."""
    max_tokens: int = Field(default=_LONGEST, ge=1)
    """Tokens of the answer at most."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """OpenAI's newer name of it; counts where both are given."""
    logprobs: bool = False
    """Whether each token has its log-probability."""
    top_logprobs: int = Field(default=0, ge=0, le=RIVALS)
    """How many rivals of each token are named with theirs."""
    chat_template_kwargs: dict[str, Any] = Field(default={})
    """Variables of the template."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs: must be sent with logprobs=true")
        return self

    @property
    def most(self) -> int:
        """As in the contract."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def rivals(self) -> int | None:
        """As in the contract."""
        return self.top_logprobs if self.logprobs else None

    def rows(self, tokenizer: Any) -> list[list[int]]:
        """As in the contract: the template makes one prompt.

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
