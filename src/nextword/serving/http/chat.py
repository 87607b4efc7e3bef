"""``/v1/chat/completions``: transformers' chat, on the one model that is served.

It has no log-probabilities, sources or stops. A request that asks for one of these goes on as a completion after the
text that the chat template makes, and is answered in the form of a chat.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.utils import Modality

from nextword.config import validated
from nextword.scoring.opened_model import OpenedModel
from nextword.serving.http.answer_forms import CHAT
from nextword.serving.http.batches import SharedBatches
from nextword.serving.http.completion_request import CompletionRequest
from nextword.serving.http.completions import Completions

_OURS = ("logprobs", "top_logprobs", "sources", "stop")
"""Fields that transformers' chat leaves unread, and completions do not."""
_WITHOUT_EFFECT = (
    "n", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "response_format", "functions",
    "function_call", "prediction", "web_search_options",
)  # fmt: skip
"""Fields of OpenAI that both, or the batches below them, leave unread."""
_LONGEST = 1024
"""Tokens of an answer where nothing is said; transformers' number."""
_NOTHING: tuple[object, ...] = (None, False, 0, [], {})
"""Values of theirs that ask for nothing."""


class Chat:
    """Answers requests.

    Args:
        opened: The model.
        batches: Where tokens are written.
        completions: Answers with log-probabilities and sources.
    """

    def __init__(self, opened: OpenedModel, batches: SharedBatches, completions: Completions) -> None:
        self._opened, self._batches, self._completions = opened, batches, completions

    async def answer(self, body: Mapping[str, Any]) -> Any:
        """The response to a request.

        Raises:
            LookupError: It names another model.
            ValueError: It asks for what a chat does not have; says what to do.
        """
        name = self._opened.name
        if body.get("model") not in (None, name):
            raise LookupError(f"model: must be '{name}', which is served here ('{body['model']}' given)")
        if getattr(self._opened.tokenizer, "chat_template", None) is None:
            raise ValueError("messages: must not be sent to a model without a chat template; use /v1/completions")
        for field in _WITHOUT_EFFECT:
            if body.get(field) not in _NOTHING and (field, body[field]) != ("n", 1):
                raise ValueError(f"{field}: has no effect in a chat, so it must be left out")
        if any(body.get(field) not in _NOTHING for field in _OURS):
            return await self._completions.answer(self._as_completion(body), CHAT)
        taken = {field: value for field, value in body.items() if field not in _OURS}
        handler = _Handler(_OneModel(self._opened), self._batches)  # type: ignore[arg-type]
        return await handler.handle_request({**taken, "model": name}, uuid.uuid4().hex)

    def _as_completion(self, body: Mapping[str, Any]) -> CompletionRequest:
        """What a chat asks of the text that its template makes."""
        given = {field: value for field, value in body.items() if value is not None and field not in _WITHOUT_EFFECT}
        given.pop("stream_options", None)  # how many tokens there were is always said
        messages, settings = given.pop("messages", None), given.pop("chat_template_kwargs", {})
        if not isinstance(messages, list):
            raise ValueError("messages: must be a list with at least one message")
        rivals = given.pop("top_logprobs", 0)
        if given.pop("logprobs", False):
            given["logprobs"] = rivals
        elif rivals:
            raise ValueError("top_logprobs: must be sent with logprobs=true")
        given["max_tokens"] = given.pop("max_completion_tokens", None) or given.get("max_tokens", _LONGEST)
        said = _Handler.get_processor_inputs_from_messages(messages, Modality.LLM)
        tokenizer: Any = self._opened.tokenizer
        read = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True, **settings)
        return validated(CompletionRequest, {**given, "prompt": read["input_ids"]})


class _OneModel:
    """The part of transformers' manager of models that its handlers ask: there is one, and it is loaded.

    Args:
        opened: The model.
    """

    def __init__(self, opened: OpenedModel) -> None:
        self._opened, self.force_model = opened, opened.name

    @staticmethod
    def process_model_name(model_id: str) -> str:
        """The name, as it is."""
        return model_id

    def load_model_and_processor(self, model_id: str, gguf_file: str | None = None) -> tuple[Any, Any]:
        """Model and tokenizer."""
        return self._opened.model, self._opened.tokenizer

    def get_model_modality(self, model: Any, processor: Any = None) -> Modality:
        """Text."""
        return Modality.LLM


class _Handler(ChatCompletionHandler):
    """transformers' chat, in which a temperature draws tokens."""

    def _build_generation_config(self, body: dict[str, Any], base: Any, use_cb: bool = False) -> Any:
        made = super()._build_generation_config(body, base, use_cb=use_cb)
        if body.get("temperature") is not None:
            made.do_sample = body["temperature"] > 0
        return made
