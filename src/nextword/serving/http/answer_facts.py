"""What the model says of the tokens of an answer: log-probabilities, rivals, sources, places."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from nextword.inference.datastore import grow_by_tokens
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.target_likelihood import TokenPair, distribution_at_targets
from nextword.inference.scoring.token_facts import TokenFacts, token_facts
from nextword.model.training_modes import measuring

PLACES = 5
"""Places named of each token."""


class AnswerFacts:
    """Asks a model about tokens while its batches go on.

    One pass over prompt and answer tells all. It is made by a twin of the model: other modules with the same weights,
    so that neither sees what the other is doing. Passes wait for one another.

    Args:
        opened: The model; not changed.
    """

    def __init__(self, opened: OpenedModel) -> None:
        self.opened = replace(opened, model=twin(opened.model))
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="facts")

    async def of(self, context: Sequence[int], answer: Sequence[int], *, candidates: int, places: int) -> TokenFacts:
        """Facts about each token of an answer after its context; without one, about all but the first."""
        asked = asyncio.get_running_loop().run_in_executor
        return await asked(self._worker, self._of, list(context), list(answer), candidates, places)

    async def call(self, function: Any, *given: Any) -> Any:
        """Calls a function that asks the twin, in its turn."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *given)

    async def remember(self, served: Any, ids: Sequence[int]) -> None:
        """Lets the served model and its twin retrieve from a text from now on; both have the head ``knn``."""
        await self.call(self._remember, served, list(ids))

    def _remember(self, served: Any, ids: list[int]) -> None:
        with measuring(self.opened.model):
            grow_by_tokens(self.opened, ids)
        served.next_word_head.recent = self.opened.model.next_word_head.recent

    def close(self) -> None:
        """Ends the thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _of(self, context: list[int], answer: list[int], candidates: int, places: int) -> TokenFacts:
        if not context:
            context, answer = answer[:1], answer[1:]
        pair = TokenPair(context, answer or context, 0)  # of a single token alone there is nothing to ask
        with measuring(self.opened.model):
            distribution, targets = distribution_at_targets(self.opened.model, [pair])
            size = distribution.vocab_size
            facts = token_facts(distribution, targets, candidates=min(candidates, size), places=places)
        return facts[: len(answer)]


def twin(model: Any) -> Any:
    """Another model with the same weights: a change of a weight is seen by both, a hook on one is not on the other."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    managers = {id(vars(model)[name]): None for name in ("_cached_continuous_batching_manager",) if name in vars(model)}
    return copy.deepcopy(model, shared | managers)
