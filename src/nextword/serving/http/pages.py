"""Pages of inspected answers, kept for a while."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Any

import torch

from nextword.inference.inspection.text_pieces import pieces_of_ids
from nextword.inference.inspection.trace_example import traced
from nextword.inference.scoring.example_encoding import EncodedExample, Example
from nextword.model.forward.vocabulary_check import expect_known_ids
from nextword.model.training_modes import measuring
from nextword.runtime.devices import weight_of
from nextword.serving.http.answer_facts import AnswerFacts

_KEPT = 20


class InspectedPages:
    """Makes pages of ``nextword inspect`` and keeps the newest, each under a name that cannot be guessed.

    Args:
        facts: Asks the model.
    """

    def __init__(self, facts: AnswerFacts) -> None:
        self._facts = facts
        self._pages: OrderedDict[str, str] = OrderedDict()

    async def make(self, prompt: str, ids: list[int]) -> dict[str, Any]:
        """Where the page of an answer is, and which of its tokens is the first that was predicted.

        Args:
            prompt: As it was sent.
            ids: Tokens of the answer.

        Raises:
            ValueError: There is no prompt or no answer, or one with unknown tokens.
        """
        made = await self._facts.call(self._trace, prompt, ids)
        name = uuid.uuid4().hex
        self._pages[name] = made.to_html()
        while len(self._pages) > _KEPT:
            self._pages.popitem(last=False)
        return {"page": f"/inspected/{name}", "first": made.first}

    def find(self, name: str) -> str | None:
        """The page of this name; None where there is none any more."""
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
        with measuring(opened.model):
            return traced(opened, encoded, pieces, {})
