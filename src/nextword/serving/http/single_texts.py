"""Answers requests with draft tokens, and sampled requests with a seed, one by one, outside the shared batches.

The shared batches have one random stream for all requests, so their requests cannot have seeds. They also generate only
one token per request and pass, so they cannot use draft tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from nextword.heads import head_spec
from nextword.inference.generation.generation_passes import effective_config
from nextword.inference.generation.generator import Generator
from nextword.inference.generation.row_sampling import RowwiseLoop, rowwise_loop, uniform_numbers
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.likelihood import TokenPair
from nextword.model.speculative_decoding.speculative_decoding import SpeculativeDecoding
from nextword.model.speculative_decoding.speculative_loop import SpeculativeLoop
from nextword.model.training_modes import inference_mode_of


@dataclass
class WrittenSoFar:
    """The output of a request so far, in the form of the batching manager.

    Attributes:
        generated_tokens: All tokens so far.
        error: Error message; None if there is no error.
        finished: Whether the answer is complete.
        accepted: Number of accepted draft tokens.
        refused: Number of rejected draft tokens.
    """

    generated_tokens: list[int] = field(default_factory=list)
    error: Exception | None = None
    finished: bool = False
    accepted: int = 0
    refused: int = 0

    def is_finished(self) -> bool:
        """Whether the answer is complete."""
        return self.finished


class SingleTexts:
    """Generates texts one by one on a twin of the served model, while the batches continue.

    The learned draft length is kept between requests. A server with ``--remember`` does not use this class, because
    this twin would not have the texts that the served model remembers.
    """

    def __init__(self, twin: Any) -> None:
        self._model = twin
        self._draftings: dict[str, SpeculativeDecoding] = {}
        self._begun: set[_Request] = set()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="singles")

    def begin(
        self,
        ids: Sequence[int],
        how: Decoding,
        most: int,
        draft: str | None,
        key: int | None,
        tell: Callable[[WrittenSoFar], None],
    ) -> Callable[[], None]:
        """Queues a request for at most ``most`` tokens after the prompt ``ids``; ``how`` is the decoding strategy.

        Sampling uses the random numbers of ``key`` (see ``nextword.inference.generation.row_sampling``), or torch's if
        ``key`` is None. ``tell`` is called in the running event loop with the output, whenever it has grown.

        Returns:
            A function that cancels the request.

        Raises:
            ValueError: If the head does not support ``draft``, or ``key`` is given and the head itself samples classes.
        """
        drafting = None if draft is None else self._draftings.setdefault(draft, SpeculativeDecoding(draft))
        if drafting is not None:
            drafting.drafter.expect_fit(self._model)
        arguments = {**how.arguments(), "max_new_tokens": most, "max_length": None, "stop_strings": None}
        if key is not None and self._model.head_draw(effective_config(self._model, arguments)) is not None:
            raise ValueError(
                f"seed: must be left out with head '{head_spec(self._model.next_word_head.config)}', which draws a "
                "class before each token from numbers that all requests share"
            )
        uniform = None if key is None else uniform_numbers([key], most)
        request = _Request(asyncio.get_running_loop(), tell)
        loop = rowwise_loop(uniform, drafting, request)
        self._begun.add(request)
        self._worker.submit(self._write, list(ids), Generator(self._model, arguments), loop, request)
        return partial(self._give_up, request)

    def _give_up(self, request: _Request) -> None:
        self._begun.discard(request)
        request.given_up = True

    def close(self) -> None:
        """Cancels all requests, and ends the thread."""
        for request in list(self._begun):
            self._give_up(request)
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _write(
        self, ids: list[int], generator: Generator, loop: RowwiseLoop | SpeculativeLoop, request: _Request
    ) -> None:
        if request.given_up:
            return
        try:
            with inference_mode_of(self._model):
                generator.write([TokenPair(ids, [], 0)], loop)
            verified = loop.decoding.verified if isinstance(loop, SpeculativeLoop) else []
            request.finish(
                accepted=sum(one.accepted for one in verified), drafted=sum(len(one.tokens) for one in verified)
            )
        except _GivenUpError:
            pass
        except Exception as problem:  # the client gets the error
            request.fail(problem)


class _GivenUpError(Exception):
    """Stops the generation of a cancelled request."""


class _Request:
    """A streamer for ``generate``; ``tell`` receives its tokens in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[WrittenSoFar], None]) -> None:
        self._loop, self._tell = loop, tell
        self._words: list[int] = []
        self.given_up = False

    def put(self, words: torch.Tensor) -> None:
        if self.given_up:
            raise _GivenUpError
        self._words += words.tolist()
        self._say(WrittenSoFar(list(self._words)))

    def end(self) -> None: ...  # ``finish`` is called next, with more information

    def finish(self, accepted: int, drafted: int) -> None:
        self._say(WrittenSoFar(list(self._words), None, True, accepted, drafted - accepted))

    def fail(self, problem: Exception) -> None:
        self._say(WrittenSoFar(list(self._words), problem, True))

    def _say(self, so_far: WrittenSoFar) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, so_far)
