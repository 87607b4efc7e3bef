"""One manager of continuous batching for all requests. Each request has its own sampling settings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import ContinuousBatchingConfig
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessorList

from nextword.inference.generation.generation_passes import end_ids
from nextword.inference.generation.generator import ExpectNumbers
from nextword.inference.generation.strategies import Decoding
from nextword.model.forward.argument_checks import expect_known_ids
from nextword.runtime.devices import weight_of
from nextword.serving.http.serve_settings import ServeSettings

_PAGE = 256
"""Number of tokens per page of the KV cache."""
_LONGEST = 4096
"""Default maximum number of tokens of prompt and answer."""


class SharedBatches:
    """A manager of transformers' continuous batching, which generates the answers to many requests together.

    In transformers, all requests have the sampling settings of the manager. Here every request has settings of its own.
    """

    def __init__(self, model: Any, settings: ServeSettings) -> None:
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.longest = settings.longest or min(int(positions or _LONGEST), _LONGEST)
        how = copy.deepcopy(model.generation_config)
        # every request sets these values; without values here, transformers leaves out the processing steps
        how.do_sample, how.temperature, how.top_k, how.top_p = True, 0.5, 50, 0.5
        how.max_new_tokens = self.longest
        room = ContinuousBatchingConfig(
            num_blocks=max(settings.cache_tokens, self.longest + 1) // _PAGE + 2,
            page_size=_PAGE,
            max_batch_tokens=settings.batch_tokens,
            per_request_processors=True,
        )
        self._manager: Any = model.init_continuous_batching(how, room)
        self._manager.logit_processor = _NumbersFirst(self._manager.logit_processor, model)
        self._manager.start()
        self._problem = "for an unknown reason"
        self._read = len(model.get_input_embeddings().weight)
        self._ends = end_ids(how) or -1
        self._vocabulary = len(weight_of(model.get_output_embeddings()))

    @property
    def is_alive(self) -> bool:
        """Whether the manager is running."""
        # not `fatal_error`, which is set a moment after the manager begins to reject requests
        return self._manager.background_thread_status.can_accept_new_requests() is None

    @property
    def requests(self) -> int:
        """Number of running and waiting requests."""
        worker = self._manager.batch_processor
        return 0 if worker is None else len(worker.scheduler.active_requests) + len(worker.scheduler.waiting_requests)

    @property
    def free(self) -> float:
        """Free share of the KV cache, between 0 and 1."""
        worker = self._manager.batch_processor
        return 1.0 if worker is None else float(worker.cache.compute_free_capacity())

    def shutdown(self) -> None:
        """Stops the manager."""
        self._manager.stop(block=True, timeout=5)

    def room_behind(self, ids: Sequence[int], least: int = 1) -> int:
        """Maximum number of tokens of an answer to the prompt ``ids``.

        Raises:
            ValueError: If this number is below ``least``, or the prompt has unknown tokens.
        """
        left = self.longest - len(ids)
        if left < least:
            raise ValueError(
                f"prompt: must leave room for an answer within {self.longest:,} tokens ({len(ids):,} given); shorten it"
            )
        expect_known_ids("prompt", torch.tensor(ids), self._read)
        return left

    def begin(
        self, ids: Sequence[int], how: Decoding, most: int, name: str, tell: Callable[[Any], None]
    ) -> Callable[[], None]:
        """Starts generation of at most ``most`` tokens after the prompt ``ids``, as the request with the id ``name``.

        ``how`` is the decoding strategy. ``tell`` is called in the running event loop with the output so far, whenever
        new tokens were generated.

        Returns:
            A function that cancels the request.

        Raises:
            RuntimeError: If batching has stopped. The message says why.
        """
        top_k = how.top_k or self._vocabulary if how.is_sampled else 1  # sampling with top_k=1 is greedy search

        def told(output: Any) -> None:
            self._problem = output.error or self._problem
            tell(output)

        self._manager.register_result_handler(name, told)
        added = self._manager.add_request(
            list(ids),
            request_id=name,
            streaming=True,
            max_new_tokens=most,
            eos_token_id=self._ends,
            temperature=how.temperature,
            top_k=min(top_k, self._vocabulary),
            top_p=1.0 if how.top_p is None else how.top_p,
        )
        if added is None:
            raise RuntimeError(f"batching has stopped ({self._problem}); start the server again")
        return partial(self._manager.cancel_request, name)


class _NumbersFirst(ContinuousBatchingLogitsProcessorList):
    # the processors of a manager; if scores of the first pass are NaN, the batches end with an error message

    def __init__(self, made: ContinuousBatchingLogitsProcessorList, model: Any) -> None:
        vars(self).update(vars(made))
        self._made: Any = made
        self._numbers: ExpectNumbers | None = ExpectNumbers(model)

    def __call__(self, input_ids: Tensor, scores: Tensor, logits_processor_args: Tensor) -> Tensor:
        # values cannot be read while a CUDA graph is captured
        if self._numbers is not None and not (scores.is_cuda and torch.cuda.is_current_stream_capturing()):
            self._numbers(input_ids, scores)
            self._numbers = None
        processed: Tensor = self._made(input_ids, scores, logits_processor_args)
        return processed
