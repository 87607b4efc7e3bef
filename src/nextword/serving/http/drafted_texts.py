"""Requests that ask for drafts: written one after the other, several words a pass, beside the shared batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from nextword.model.drafting.drafting import Drafting
from nextword.model.training_modes import measuring
from nextword.serving.http.batches import TooLongError


@dataclass
class WrittenSoFar:
    """What has been written of a request, as the manager of the batches tells it.

    Attributes:
        generated_tokens: All words so far.
        error: What went wrong; None: nothing.
        finished: Whether that is all.
        accepted: Drafted words that the model wrote itself.
        refused: Drafted words that it did not.
    """

    generated_tokens: list[int] = field(default_factory=list)
    error: Exception | None = None
    finished: bool = False
    accepted: int = 0
    refused: int = 0

    def is_finished(self) -> bool:
        """Whether nothing follows."""
        return self.finished


class DraftedTexts:
    """Writes with drafts, on a twin of the served model: the batches go on meanwhile.

    What was learned of how many words to draft is kept from request to request. Not for a server whose head remembers
    texts (``--remember``): the twin's would not see what the others do.

    Args:
        twin: The model; its modules are nobody else's.
        longest: Tokens of prompt and answer together.
    """

    def __init__(self, twin: Any, longest: int) -> None:
        self._model, self._longest = twin, longest
        self._draftings: dict[str, Drafting] = {}
        self._begun: dict[str, _Request] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="drafts")

    def begin(self, ids: Sequence[int], how: Any, by: str, name: str, tell: Callable[[WrittenSoFar], None]) -> None:
        """Begins to write, after the requests before it.

        Args:
            ids: The prompt.
            how: Its generation config.
            by: Who guesses.
            name: Of the request.
            tell: Called in the running loop with what is written, whenever it has grown.

        Raises:
            TooLongError: Prompt and answer do not fit.
            ValueError: A prompt with unknown tokens, or a head that cannot draft in this way.
        """
        left = self._longest - len(ids)
        if left < 1:
            raise TooLongError(
                f"prompt: must leave room for an answer within {self._longest:,} tokens ({len(ids):,} given); "
                "shorten it"
            )
        vocabulary = len(self._model.get_input_embeddings().weight)
        unknown = next((one for one in ids if not 0 <= one < vocabulary), None)
        if unknown is not None:
            raise ValueError(f"prompt: tokens must be from 0 to {vocabulary - 1} ({unknown} given)")
        drafting = self._draftings.setdefault(by, Drafting(by))
        drafting.drafter.expect_fit(self._model)
        how.max_new_tokens = min(how.max_new_tokens or left, left)
        request = _Request(asyncio.get_running_loop(), tell)
        self._begun[name] = request
        self._worker.submit(self._write, list(ids), how, drafting, request)

    def cancel(self, name: str) -> None:
        """Nobody waits for this request any more."""
        if (request := self._begun.pop(name, None)) is not None:
            request.given_up = True

    def close(self) -> None:
        """Gives up all requests, and ends the thread."""
        for name in list(self._begun):
            self.cancel(name)
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _write(self, ids: list[int], how: Any, drafting: Drafting, request: _Request) -> None:
        if request.given_up:
            return
        try:
            with measuring(self._model):
                prompt = torch.tensor([ids], device=self._model.device)
                self._model.generate(
                    prompt, attention_mask=torch.ones_like(prompt), generation_config=how, draft=drafting,
                    streamer=request, stopping_criteria=StoppingCriteriaList([_GivenUp(request)]),
                )  # fmt: skip
            request.finish(
                accepted=sum(one.accepted for one in drafting.judged),
                drafted=sum(len(one.words) for one in drafting.judged),
            )
        except Exception as problem:  # whoever asked is told
            request.fail(problem)


class _Request:
    """What ``generate`` hands its words to.

    Args:
        loop: Where those who wait are told.
        tell: Told in it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[WrittenSoFar], None]) -> None:
        self._loop, self._tell = loop, tell
        self._words: list[int] | None = None
        self.given_up = False

    def put(self, words: torch.Tensor) -> None:
        """A new word; the first call hands over the prompt."""
        if self._words is None:
            self._words = []
            return
        self._words += words.tolist()
        self._say(WrittenSoFar(list(self._words)))

    def end(self) -> None:
        """Told by ``finish``, which knows more."""

    def finish(self, accepted: int, drafted: int) -> None:
        """All is written."""
        self._say(WrittenSoFar(list(self._words or []), None, True, accepted, drafted - accepted))

    def fail(self, problem: Exception) -> None:
        """Nothing more will be written."""
        self._say(WrittenSoFar(list(self._words or []), problem, True))

    def _say(self, so_far: WrittenSoFar) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, so_far)


class _GivenUp(StoppingCriteria):
    """Ends a text that nobody waits for."""

    def __init__(self, request: _Request) -> None:
        self._request = request

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> Any:
        """Whether each text ends."""
        return torch.full((len(input_ids),), self._request.given_up, device=input_ids.device)
