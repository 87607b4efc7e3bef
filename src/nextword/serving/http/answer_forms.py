"""Response formats of ``/v1/completions`` and ``/v1/chat/completions``.

An answer with one token, first of ``/v1/completions``, then of ``/v1/chat/completions``::

    {"text": " king", "logprobs": {"tokens": [" king"], "token_logprobs": [-1.2], ...}}
    {"message": {"content": " king"}, "logprobs": {"content": [{"token": " king", "logprob": -1.2, ...}]}}
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_UNLIKELY = -9999.0
"""OpenAI's log-probability for tokens that have none, where null is not allowed."""


@dataclass(frozen=True)
class NamedToken:
    """A token as the server returns it to a client.

    Attributes:
        label: Text of the token. For a part of a character or a token without text, the result of ``token_label``.
        content: Bytes of the text. None for a token without text, such as an end token.
        log_prob: Log-probability. None for the first token of a text, which is not predicted.
    """

    label: str
    content: bytes | None
    log_prob: float | None


@dataclass(frozen=True)
class ShownToken:
    """A token, its alternatives (most probable first), and the index of its first character in the answer's text."""

    token: NamedToken
    alternatives: Sequence[NamedToken]
    offset: int


class _TextForm:
    """Format of OpenAI's completions."""

    prefix = "cmpl"
    """Prefix of answer ids."""

    # the object around the choices
    def shell(self, name: str, model: str, choices: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
        return _shell("text_completion", name, model, choices)

    # a choice with its index and text, or in a stream with the next part of the text
    def choice(self, index: int, text: str, finished: str | None, *, stream: bool, first: bool) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finished}

    # log-probabilities of tokens, each with this number of alternatives
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
    """Format of OpenAI's chat completions."""

    prefix = "chatcmpl"

    def shell(self, name: str, model: str, choices: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
        return _shell("chat.completion.chunk" if stream else "chat.completion", name, model, choices)

    def choice(self, index: int, text: str, finished: str | None, *, stream: bool, first: bool) -> dict[str, Any]:
        # in a stream, only the first part has the role
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
    """``value``, or None (null in JSON) if it is minus infinity, the logarithm of 0, which JSON cannot represent."""
    return None if value is None or value == -float("inf") else value


def _by_label(alternatives: Sequence[NamedToken]) -> dict[str, float | None] | None:
    """Log-probabilities by label, of the most probable alternative per label. None for a text's first token."""
    return {one.label: json_number(one.log_prob) for one in reversed(alternatives)} or None


def _of_chat(token: NamedToken) -> dict[str, Any]:
    log_prob = _UNLIKELY if token.log_prob is None else max(token.log_prob, _UNLIKELY)
    return {
        "token": token.label, "logprob": log_prob,
        "bytes": None if token.content is None else list(token.content),
    }  # fmt: skip


def _shell(kind: str, name: str, model: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": int(time.time()), "model": model, "choices": choices}
