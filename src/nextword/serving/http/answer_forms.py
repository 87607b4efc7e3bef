"""What answers look like: those of ``/v1/completions``, and those of ``/v1/chat/completions``.

The same answer with one token, without and with ``chat``::

    {"text": " king", "logprobs": {"tokens": [" king"], "token_logprobs": [-1.2], ...}}
    {"message": {"content": " king"}, "logprobs": {"content": [{"token": " king", "logprob": -1.2, ...}]}}
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_UNLIKELY = -9999.0
"""OpenAI's log-probability of what has none, where null is not allowed."""


@dataclass(frozen=True)
class NamedToken:
    """A token as it is named to a client.

    Attributes:
        label: Its text; where that is part of a character, its name in the vocabulary.
        content: The bytes of its text; None for a token without, such as one that ends texts.
        log_prob: Log of its probability; None at the first token of a text, which nothing predicts.
    """

    label: str
    content: bytes | None
    log_prob: float | None


@dataclass(frozen=True)
class ShownToken:
    """A token of an answer, its alternatives, the likeliest first, and where in the answer its text begins."""

    token: NamedToken
    alternatives: Sequence[NamedToken]
    offset: int


class _TextForm:
    """OpenAI's completions."""

    prefix = "cmpl"
    """What names of answers begin with."""

    # what is around the choices
    def shell(self, name: str, model: str, choices: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
        return _shell("text_completion", name, model, choices)

    # a text with its number, or in a stream the next part of it
    def choice(self, index: int, text: str, finished: str | None, *, stream: bool, first: bool) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finished}

    # of tokens, and of so many alternatives of each
    def log_probs(self, tokens: Sequence[ShownToken], alternatives: int) -> dict[str, Any]:
        return {
            "tokens": [shown.token.label for shown in tokens],
            "token_logprobs": [json_number(shown.token.log_prob) for shown in tokens],
            "top_logprobs": (
                [_by_label(shown.alternatives[:alternatives]) for shown in tokens] if alternatives else None
            ),
            "text_offset": [shown.offset for shown in tokens],
        }


class _ChatForm:
    """OpenAI's chat completions."""

    prefix = "chatcmpl"

    def shell(self, name: str, model: str, choices: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
        return _shell("chat.completion.chunk" if stream else "chat.completion", name, model, choices)

    def choice(self, index: int, text: str, finished: str | None, *, stream: bool, first: bool) -> dict[str, Any]:
        # the role is said once
        said = {"content": text} if stream and not first else {"role": "assistant", "content": text}
        return {"index": index, "delta" if stream else "message": said, "logprobs": None, "finish_reason": finished}

    def log_probs(self, tokens: Sequence[ShownToken], alternatives: int) -> dict[str, Any]:
        content = [
            _of_chat(shown.token) | {"top_logprobs": [_of_chat(rival) for rival in shown.alternatives[:alternatives]]}
            for shown in tokens
        ]
        return {"content": content, "refusal": None}


AnswerForm = _TextForm | _ChatForm
TEXT, CHAT = _TextForm(), _ChatForm()


def json_number(value: float | None) -> float | None:
    """JSON has no infinity: the log of a probability of zero is null."""
    return None if value is None or value == -float("inf") else value


def _by_label(alternatives: Sequence[NamedToken]) -> dict[str, float | None] | None:
    """The likeliest of several with one label; None at the first token of a text, which has none."""
    return {one.label: json_number(one.log_prob) for one in reversed(alternatives)} or None


def _of_chat(token: NamedToken) -> dict[str, Any]:
    log_prob = _UNLIKELY if token.log_prob is None else max(token.log_prob, _UNLIKELY)
    return {
        "token": token.label, "logprob": log_prob,
        "bytes": None if token.content is None else list(token.content),
    }  # fmt: skip


def _shell(kind: str, name: str, model: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": int(time.time()), "model": model, "choices": choices}
