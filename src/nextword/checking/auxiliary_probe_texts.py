"""Random auxiliary texts for a conditioned model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

_ROOM = 8
"""Places to leave free in an encoder with few: for padding, and before the first token (RoBERTa has two)."""

_MORE_WORDS = 2
"""Tokens of the decoder that an auxiliary text has more than tokens of the encoder: a mix-up of the two would show."""


@dataclass(frozen=True, eq=False)
class DecoderWords:
    """An auxiliary text in the decoder's tokens, for heads that copy from it.

    Args:
        ids: The tokens.
        places: For each the place of the encoder's token that stands for it.
    """

    ids: Int[Tensor, "S"]
    places: Int[Tensor, "S"]


@dataclass(frozen=True, eq=False)
class AuxiliaryText:
    """One auxiliary text.

    Args:
        ids: Tokens of the encoder.
        words: The same in tokens of the decoder; None where the head does not copy.
    """

    ids: Int[Tensor, "A"]
    words: DecoderWords | None


class AuxiliaryWords:
    """Random tokens of an auxiliary encoder, special ones left out where its configuration names them.

    Args:
        encoder: The auxiliary encoder.
        generator: Source of the random numbers.
        decoder: Ordinary tokens of the decoder; None where the head does not copy.
    """

    def __init__(self, encoder: Any, generator: torch.Generator, decoder: Int[Tensor, "K"] | None = None) -> None:
        weight = encoder.get_input_embeddings().weight
        named = {key: value for key, value in vars(encoder.config).items() if key.endswith("_token_id")}
        special = {int(value) for value in named.values() if isinstance(value, int)}
        ordinary = [token for token in range(weight.shape[0]) if token not in special]
        self._ordinary = torch.tensor(ordinary if len(ordinary) > 3 else range(weight.shape[0]), device=weight.device)
        self._decoder = None if decoder is None else decoder.to(weight.device)
        self._generator = generator
        pad = named.get("pad_token_id")
        self.pad = pad if isinstance(pad, int) and 0 <= pad < weight.shape[0] else 0
        limit = getattr(encoder.config, "max_position_embeddings", None)
        self._longest = None if limit is None else max(1, limit - _ROOM)

    def text(self, length: int) -> AuxiliaryText:
        """A text of so many tokens, or of as many as the encoder has places for; about half of them recur."""
        length = length if self._longest is None else min(length, self._longest)
        ids = self._drawn(self._ordinary, length)
        if self._decoder is None:
            return AuxiliaryText(ids, None)
        words = self._drawn(self._decoder, length + _MORE_WORDS)
        places = torch.randint(length, words.shape, generator=self._generator).sort().values
        return AuxiliaryText(ids, DecoderWords(words, places.to(words.device)))

    def other(self, text: AuxiliaryText) -> AuxiliaryText:
        """One as long, with none of its tokens where there are enough others."""
        ids = self._others(self._ordinary, text.ids)
        if text.words is None or self._decoder is None:
            return AuxiliaryText(ids, None)
        return AuxiliaryText(ids, replace(text.words, ids=self._others(self._decoder, text.words.ids)))

    def tokens(self, ids: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Tokens of the encoder, as many."""
        return self._drawn(self._ordinary, ids.numel()).view_as(ids)

    def _others(self, ordinary: Int[Tensor, "K"], ids: Int[Tensor, "A"]) -> Int[Tensor, "A"]:
        # heads that copy may look at which words there are, not at where
        rest = ordinary[~torch.isin(ordinary, ids)]
        return self._drawn(rest if len(rest) else ordinary, len(ids))

    def _drawn(self, ordinary: Int[Tensor, "K"], length: int) -> Int[Tensor, "A"]:
        order = torch.randperm(len(ordinary), generator=self._generator)[: max(2, length // 2)]
        pool = ordinary[order.to(ordinary.device)]
        return pool[torch.randint(len(pool), (length,), generator=self._generator).to(pool.device)]
