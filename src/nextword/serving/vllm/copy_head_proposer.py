"""Draft tokens for vLLM: the tokens after the position from which the head copied a request's last token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nextword.model.speculative_decoding.drafter import CopyHeadDrafter, Decided, KnownText


class CopyHeadProposer:
    """A drafter that vLLM uses if ``speculative_config`` has the method ``custom_class`` and names this class."""

    def __init__(self, vllm_config: Any) -> None:
        self._longest = int(vllm_config.speculative_config.num_speculative_tokens)
        self._room = int(vllm_config.model_config.max_model_len)
        self._drafter = CopyHeadDrafter()
        self._model: Any = None

    def load_model(self, model: Any) -> None:
        """Stores ``model``, the ``ServedModel``. There is no draft model to load."""
        self._model = model

    def propose(
        self, sampled_token_ids: Sequence[Sequence[int]], num_tokens_no_spec: Any, token_ids_cpu: Any,
        slot_mappings: Any = None,
    ) -> list[list[int]]:  # fmt: skip
        """Drafts at most ``num_speculative_tokens`` tokens for each request; a draft may be empty.

        Args:
            sampled_token_ids: New tokens of each request. Empty while vLLM reads the request's prompt.
            num_tokens_no_spec: Number of tokens of each request, including new tokens.
            token_ids_cpu: The tokens of each request.
            slot_mappings: Not used.
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
