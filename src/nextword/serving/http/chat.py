"""``/v1/chat/completions``: transformers' chat, on the one model that is served."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from transformers.cli.serving.chat_completion import ChatCompletionHandler
from transformers.cli.serving.utils import Modality

from nextword.scoring.opened_model import OpenedModel
from nextword.serving.http.batches import SharedBatches

_WITHOUT_EFFECT = (
    "logprobs", "top_logprobs", "n", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "response_format",
    "stop", "functions", "function_call", "prediction", "web_search_options",
)  # fmt: skip
"""Fields of OpenAI that transformers' chat, or the batches below it, leave unread."""
_NOTHING: tuple[object, ...] = (None, False, 0, [], {})
"""Values of theirs that ask for nothing."""


class Chat:
    """Answers requests.

    Args:
        opened: The model.
        batches: Where tokens are written.
    """

    def __init__(self, opened: OpenedModel, batches: SharedBatches) -> None:
        self._opened, self._batches = opened, batches

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
                raise ValueError(
                    f"{field}: has no effect in a chat, so it must be left out; /v1/completions, asked with the text "
                    "that the chat template makes, has logprobs and sources"
                )
        handler = _Handler(_OneModel(self._opened), self._batches)  # type: ignore[arg-type]
        return await handler.handle_request({**body, "model": name}, uuid.uuid4().hex)


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
