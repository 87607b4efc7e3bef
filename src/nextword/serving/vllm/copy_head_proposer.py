"""Drafts in vLLM by the head's own positions: what follows the position that a request's last word was copied from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nextword.model.speculative_decoding.drafter import CopyHeadDrafter, Decided, KnownText


class CopyHeadProposer:
    """What vLLM asks for drafts after each pass, as ``speculative_config``'s method ``custom_class`` has it."""

    def __init__(self, vllm_config: Any) -> None:
        self._longest = int(vllm_config.speculative_config.num_speculative_tokens)
        self._room = int(vllm_config.model_config.max_model_len)
        self._drafter = CopyHeadDrafter()
        self._model: Any = None

    def load_model(self, model: Any) -> None:
        """Is handed the ``ServedModel``; there is no other to load."""
        self._model = model

    def propose(
        self, sampled_token_ids: Sequence[Sequence[int]], num_tokens_no_spec: Any, token_ids_cpu: Any,
        slot_mappings: Any = None,
    ) -> list[list[int]]:  # fmt: skip
        """What may come next in each request.

        Args:
            sampled_token_ids: New tokens of each request, of one whose prompt is not read yet none.
            num_tokens_no_spec: Tokens of each, the new ones included.
            token_ids_cpu: These words.
            slot_mappings: Not looked at.
        """
        drafts: list[list[int]] = [[] for _ in sampled_token_ids]
        decided = None if self._model is None else self._model.decided
        if decided is None:
            return drafts
        begins: dict[int, int] = {}
        for place, request in enumerate(decided.requests):
            begins.setdefault(request, place)
        asked = [
            row for row, new in enumerate(sampled_token_ids) if len(new) and num_tokens_no_spec[row] + 1 < self._room
        ]
        if not asked:
            return drafts
        texts = [KnownText(token_ids_cpu[row, : num_tokens_no_spec[row]].tolist()) for row in asked]
        positions = torch.tensor(
            [begins[row] + len(sampled_token_ids[row]) - 1 for row in asked], device=decided.distribution.device
        )
        of = Decided(decided.distribution, positions, [0] * len(asked))
        for row, draft in zip(asked, self._drafter.drafts(texts, of, self._longest), strict=True):
            left = self._room - 1 - int(num_tokens_no_spec[row])
            drafts[row] = [] if draft is None else list(draft.tokens[:left])
        return drafts
