"""Pages of inspected answers. Only the newest pages are kept."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch

from nextword.inference.datastore import grow_by_tokens
from nextword.inference.inspection.trace_example import pieces_of_ids, traced
from nextword.inference.scoring.example_encoding import EncodedExample, Example
from nextword.inference.scoring.likelihood import TokenPair, distribution_at_targets
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.token_facts import TokenFacts, token_facts
from nextword.model.forward.argument_checks import expect_known_ids
from nextword.model.training_modes import inference_mode_of
from nextword.runtime.devices import weight_of

_KEPT = 20


class InspectedPages:
    """Makes pages of ``nextword inspect`` and keeps the newest of them, under names that cannot be guessed."""

    def __init__(self, facts: AnswerFacts) -> None:
        self._facts = facts
        self._pages: OrderedDict[str, str] = OrderedDict()

    async def make(self, prompt: str, ids: list[int]) -> dict[str, Any]:
        """Makes the page of the answer ``ids`` to ``prompt``.

        Returns the path of the page (key ``page``), and the index of the answer's first token on it (key ``first``).

        Raises:
            ValueError: If prompt or answer is empty or has unknown tokens.
        """
        made = await self._facts.call(self._trace, prompt, ids)
        name = uuid.uuid4().hex
        self._pages[name] = made.to_html()
        while len(self._pages) > _KEPT:
            self._pages.popitem(last=False)
        return {"page": f"/inspected/{name}", "first": made.first}

    def find(self, name: str) -> str | None:
        """The page with the name ``name``. None if it is no longer kept."""
        return self._pages.get(name)

    def _trace(self, prompt: str, ids: list[int]) -> Any:
        opened = self._facts.opened
        tokenizer: Any = opened.tokenizer
        read = tokenizer(prompt, return_offsets_mapping=True)
        if not read["input_ids"] or not ids:
            raise ValueError("prompt, ids: must have at least one token each; write something first")
        expect_known_ids("ids", torch.tensor(ids), len(weight_of(opened.model.get_output_embeddings())))
        pieces = pieces_of_ids(tokenizer, ids, read["input_ids"])
        written = len("".join(pieces).encode())
        example = Example("".join(pieces), prompt, id="answer")
        encoded = EncodedExample(read["input_ids"], ids, written, example, [], 0, read["offset_mapping"])
        with inference_mode_of(opened.model):
            return traced(opened, encoded, pieces, {})


# -- Facts about the tokens of an answer: log-probabilities, alternatives, sources, positions.

POSITIONS = 5
"""Number of positions listed per token."""


class AnswerFacts:
    """Computes facts about tokens while the model's batches continue.

    Each call is one pass over prompt and answer. The pass runs on a ``twin`` of the model, so that hooks and caches of
    the two models do not interfere. Passes run one after another, in a thread.
    """

    def __init__(self, opened: OpenedModel) -> None:
        self.opened = replace(opened, model=twin(opened.model))
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="facts")

    async def of(self, context: Sequence[int], answer: Sequence[int], *, candidates: int, positions: int) -> TokenFacts:
        """Facts about each token of ``answer`` after ``context``. Without a context, about all tokens but the first.

        ``candidates`` and ``positions`` are the maximum numbers of alternatives and positions per token.
        """
        facts: TokenFacts = await self.call(self._of, list(context), list(answer), candidates, positions)
        return facts

    async def call(self, function: Any, *given: Any) -> Any:
        """Calls ``function``, which uses the twin, with the arguments ``given``, in the thread of the passes."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *given)

    async def remember(self, served: Any, ids: Sequence[int]) -> None:
        """Adds the text ``ids`` to the in-memory datastore of the ``served`` model and of its twin (head ``knn``)."""
        await self.call(self._remember, served, list(ids))

    def _remember(self, served: Any, ids: list[int]) -> None:
        with inference_mode_of(self.opened.model):
            grow_by_tokens(self.opened, ids)
        served.next_word_head.recent = self.opened.model.next_word_head.recent

    def close(self) -> None:
        """Ends the thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _of(self, context: list[int], answer: list[int], candidates: int, positions: int) -> TokenFacts:
        if not context:
            context, answer = answer[:1], answer[1:]
        pair = TokenPair(context, answer or context, 0)  # with a single token, no token is predicted
        with inference_mode_of(self.opened.model):
            distribution, targets = distribution_at_targets(self.opened.model, [pair])
            size = distribution.vocab_size
            facts = token_facts(distribution, targets, candidates=min(candidates, size), positions=positions)
        return facts[: len(answer)]


def twin(model: Any) -> Any:
    """A copy of ``model`` with modules of its own, which share the weights and buffers of ``model``."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    managers = {id(vars(model)[name]): None for name in ("_cached_continuous_batching_manager",) if name in vars(model)}
    return copy.deepcopy(model, shared | managers)
