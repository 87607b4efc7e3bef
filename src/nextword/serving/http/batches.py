"""One manager of continuous batching for all requests, each with its own sampling."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from transformers import ContinuousBatchingConfig
from transformers.cli.serving.utils import CBGenerateManager, GenerationState

from nextword.devices import weight_of
from nextword.serving.http.serve_settings import ServeSettings

_PAGE = 256
"""Tokens of a page of the cache."""


class TooLongError(ValueError):
    """A prompt that leaves no room for an answer."""


class SharedBatches(GenerationState):
    """transformers' state of a server, whose requests all go to one manager.

    transformers takes the sampling of all requests from the first one. Here every request brings its own.

    Args:
        model: A ``NextWordModel``.
        settings: Limits.
    """

    def __init__(self, model: Any, settings: ServeSettings) -> None:
        super().__init__(continuous_batching=True)
        self.longest = settings.longest or min(_positions(model), 4096)
        how = copy.deepcopy(model.generation_config)
        # each is given anew with every request; without a value here transformers leaves its step out
        how.do_sample, how.temperature, how.top_k, how.top_p = True, 0.5, 50, 0.5
        how.max_new_tokens = self.longest
        room = ContinuousBatchingConfig(
            num_blocks=max(settings.cache_tokens, self.longest + 1) // _PAGE + 2,
            page_size=_PAGE,
            max_batch_tokens=settings.batch_tokens,
            per_request_processors=True,
        )
        self.manager: Any = model.init_continuous_batching(how, room)
        self.manager.start()
        self._vocabulary = len(weight_of(model.get_output_embeddings()))

    def get_manager(self, model_id: str, use_cb: bool = False) -> RequestBatches:
        """The way of one request to the manager."""
        return RequestBatches(self)

    def is_cb_alive(self) -> bool:
        """Whether requests are worked on."""
        return self.manager.background_thread_status.fatal_error is None

    @property
    def requests(self) -> int:
        """Requests that it has, at work and waiting."""
        worker = self.manager.batch_processor
        return 0 if worker is None else len(worker.scheduler.active_requests) + len(worker.scheduler.waiting_requests)

    @property
    def free(self) -> float:
        """Share of the cache that no request occupies, between 0 and 1."""
        worker = self.manager.batch_processor
        return 1.0 if worker is None else float(worker.cache.compute_free_capacity())

    def shutdown(self) -> None:
        """Ends the manager."""
        self.manager.stop(block=True, timeout=5)

    def add(self, ids: Sequence[int], how: Any, request_id: str, *, streaming: bool, eos_token_id: Any = None) -> str:
        """Adds a request with the sampling of its generation config.

        Raises:
            TooLongError: Prompt and answer do not fit.
            ValueError: A prompt without tokens, or with unknown ones.
        """
        left = self.longest - len(ids)
        if left < 1:
            raise TooLongError(
                f"prompt: must leave room for an answer within {self.longest:,} tokens ({len(ids):,} given); shorten it"
            )
        # the likeliest token alone is greedy search
        temperature, top_k = (float(how.temperature or 1.0), how.top_k or 0) if how.do_sample else (1.0, 1)
        added: str = self.manager.add_request(
            list(ids),
            request_id=request_id,
            streaming=streaming,
            max_new_tokens=min(how.max_new_tokens or left, left),
            eos_token_id=-1 if eos_token_id is None else eos_token_id,
            temperature=temperature,
            top_k=int(top_k) if 0 < top_k < self._vocabulary else self._vocabulary,
            top_p=float(1.0 if how.top_p is None or not how.do_sample else how.top_p),
        )
        return added


class RequestBatches(CBGenerateManager):
    """What transformers' handlers call a manager: it takes one request to the one that all share.

    Args:
        shared: That one.
    """

    def __init__(self, shared: SharedBatches) -> None:
        super().__init__()
        self._shared = shared

    def init_cb(self, model: Any, gen_config: Any) -> None:
        """Remembers how this request samples."""
        self._cb: Any = _Asked(self._shared, gen_config)

    def stop(self) -> None:
        """Nothing to stop: others go on."""


class _Asked:
    """The shared manager, as one request sees it."""

    def __init__(self, shared: SharedBatches, how: Any) -> None:
        self._shared, self._how = shared, how

    def add_request(self, input_ids: Sequence[int], request_id: str, **given: Any) -> str:
        """With this request's sampling."""
        eos, streaming = given.get("eos_token_id"), bool(given.get("streaming"))
        return self._shared.add(input_ids, self._how, request_id, streaming=streaming, eos_token_id=eos)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared.manager, name)


def _positions(model: Any) -> int:
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 4096)
