"""Drafts by transformers' prompt lookup: what followed the last two words, or the last one, where they came first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from nextword.model.drafting.drafter import Decided, Draft, Drafter, KnownText, drafters

_ENDLESS = 1 << 30


@drafters.register("prompt")
class PromptDrafter(Drafter):
    """Works with every head. What an encoder-decoder model reads is looked through too, before its own text."""

    def expect_fit(self, model: Any) -> None:
        """Every model reads something."""

    def drafts(self, texts: Sequence[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        """As in the contract."""
        lookup = PromptLookupCandidateGenerator(num_output_tokens=longest, max_length=_ENDLESS)
        drafts: list[Draft | None] = []
        for text in texts:
            ids: Any = torch.tensor([text.source + text.words])
            found = lookup.get_candidates(ids)[0][0, ids.shape[1] :].tolist()
            drafts.append(Draft(found, "prompt") if found else None)
        return drafts
