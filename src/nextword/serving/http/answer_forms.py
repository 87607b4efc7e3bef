"""What answers look like: those of ``/v1/completions``, and those of ``/v1/chat/completions``.

The same answer with one token, without and with ``chat``::

    {"text": " king", "logprobs": {"tokens": [" king"], "token_logprobs": [-1.2], ...}}
    {"message": {"content": " king"}, "logprobs": {"content": [{"token": " king", "logprob": -1.2, ...}]}}
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_UNLIKELY = -9999.0
"""OpenAI's log-probability of what has none, where null is not allowed."""


@dataclass(frozen=True)
class LabelledToken:
    """A token of an answer, as it is named to a client.

    Attributes:
        label: Its text; where that is part of a character, its name in the vocabulary.
        log_prob: Log of its probability.
        rivals: The likeliest tokens in its place, each with its log-probability.
        offset: Where in the answer its text begins.
    """

    label: str
    log_prob: float
    rivals: Sequence[tuple[str, float]]
    offset: int


class AnswerForm(Protocol):
    """How an answer is written as JSON."""

    prefix: str
    """What names of answers begin with."""

    def shell(self, name: str, model: str, choices: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
        """What is around the choices."""
        ...

    def choice(self, text: str, finished: str | None, *, stream: bool, first: bool) -> dict[str, Any]:
        """A text, or in a stream the next part of it."""
        ...

    def log_probs(self, tokens: Sequence[LabelledToken], rivals: int) -> dict[str, Any]:
        """Log-probabilities of tokens, and of so many rivals of each."""
        ...


class TextForm:
    """OpenAI's completions."""

    prefix = "cmpl"

    def shell(self, name: str, model: str, choices: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
        """As in the contract."""
        return _shell("text_completion", name, model, choices)

    def choice(self, text: str, finished: str | None, *, stream: bool, first: bool) -> dict[str, Any]:
        """As in the contract."""
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finished}

    def log_probs(self, tokens: Sequence[LabelledToken], rivals: int) -> dict[str, Any]:
        """As in the contract."""
        named = [{label: json_number(value) for label, value in token.rivals[:rivals]} for token in tokens]
        return {
            "tokens": [token.label for token in tokens],
            "token_logprobs": [json_number(token.log_prob) for token in tokens],
            "top_logprobs": named if rivals else None,
            "text_offset": [token.offset for token in tokens],
        }


class ChatForm:
    """OpenAI's chat completions."""

    prefix = "chatcmpl"

    def shell(self, name: str, model: str, choices: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
        """As in the contract."""
        return _shell("chat.completion.chunk" if stream else "chat.completion", name, model, choices)

    def choice(self, text: str, finished: str | None, *, stream: bool, first: bool) -> dict[str, Any]:
        """As in the contract; who speaks is said once."""
        said = {"content": text} if stream and not first else {"role": "assistant", "content": text}
        return {"index": 0, "delta" if stream else "message": said, "logprobs": None, "finish_reason": finished}

    def log_probs(self, tokens: Sequence[LabelledToken], rivals: int) -> dict[str, Any]:
        """As in the contract."""
        content = [
            _of_chat(token.label, token.log_prob) | {"top_logprobs": [_of_chat(*one) for one in token.rivals[:rivals]]}
            for token in tokens
        ]
        return {"content": content, "refusal": None}


TEXT, CHAT = TextForm(), ChatForm()


def json_number(value: float) -> float | None:
    """JSON has no infinity: the log of a probability of zero is null."""
    return value if value > -float("inf") else None


def _of_chat(label: str, log_prob: float) -> dict[str, Any]:
    return {"token": label, "logprob": max(log_prob, _UNLIKELY), "bytes": list(label.encode())}


def _shell(kind: str, name: str, model: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": int(time.time()), "model": model, "choices": choices}
