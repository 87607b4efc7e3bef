"""Textbook forms of the cache-LM head: what is stored, who sees it, and the distributions over it.

One position after the other, -inf only where a probability is 0. Nothing here imports the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.oracles.textbook.heads import log_softmax


@dataclass(frozen=True)
class Memory:
    """What B sequences store, as seen from each of their T positions.

    Args:
        scores: Similarity ``s_tj`` of position t and entry j, divided by sqrt(D) and the temperature, (B, T, S).
        values: Token that entry j stands for, (B, S).
        visible: Which entries position t may see, (B, T, S). The others count nowhere.
    """

    scores: Tensor
    values: Tensor
    visible: Tensor

    def seen(self, b: int, t: int) -> tuple[Tensor, Tensor]:
        """Scores and tokens of the entries that position t of sequence b may see."""
        which = self.visible[b, t].nonzero()[:, 0]
        return self.scores[b, t, which], self.values[b, which]


def decoder_memory(
    states: Tensor, input_ids: Tensor, attention_mask: Tensor | None = None, temperature: float = 1.0
) -> Memory:
    """A decoder-only model's own past: entry j is ``(h_j, x_{j+1})``, seen from position t when ``j + 1 <= t``.

    ``s_tj = h_t . h_j / (sqrt(D) temperature)``; there are T - 1 entries. An entry is stored only where both ``x_j``
    and ``x_{j+1}`` are real tokens: a sequence with padding left or right remembers what it remembers alone.
    Source: Grave et al. 2017; Zhong et al. 2022 (TRIME), eq. 3; HistAlign, eq. 3. The published HistAlign code drops an
    entry for its value's padding only.

    Args:
        states: Final hidden states, those that the output layer reads, (B, T, D).
        input_ids: (B, T).
        attention_mask: (B, T), 1 at real tokens.
        temperature: Divides the similarities, not the scores of the output layer.
    """
    batch, length, width = states.shape
    real = torch.ones(batch, length, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    visible = torch.zeros(batch, length, max(length - 1, 0), dtype=torch.bool)
    for b in range(batch):
        for t in range(length):
            for j in range(length - 1):
                visible[b, t, j] = j + 1 <= t and bool(real[b, j]) and bool(real[b, j + 1])
    similarity = states @ states.mT / (math.sqrt(width) * temperature)
    return Memory(similarity[..., :-1], input_ids[:, 1:], visible)


def source_memory(
    states: Tensor, source_states: Tensor, source_ids: Tensor, source_mask: Tensor, temperature: float = 1.0
) -> Memory:
    """An encoder-decoder model's source: entry s is ``(e_s, src_s)``, seen from every position; padding is not stored.

    ``s_ts = h_t . e_s / (sqrt(D) temperature)``. Source: HistAlign, section on encoder-decoder models.

    Args:
        states: Decoder states that the output layer reads, (B, T, D).
        source_states: Last hidden states of the encoder, (B, S, D).
        source_ids: (B, S).
        source_mask: (B, S), 1 at real tokens.
        temperature: Divides the similarities.
    """
    batch, length, width = states.shape
    visible = source_mask.bool()[:, None, :].expand(batch, length, -1)
    similarity = states @ source_states.mT / (math.sqrt(width) * temperature)
    return Memory(similarity, source_ids, visible)


def _log_mass(scores: Tensor, values: Tensor, vocab_size: int) -> Tensor:
    """``log sum_{j: x_j = v} exp s_j`` for every v of the vocabulary; -inf where v is not stored."""
    mass = scores.new_full((vocab_size,), -torch.inf)
    for v in values.unique():
        mass[v] = torch.logsumexp(scores[values == v], 0)
    return mass


def _per_position(logits: Tensor, form: Callable[[int, int], Tensor]) -> Tensor:
    rows = [[form(b, t) for t in range(logits.shape[1])] for b in range(logits.shape[0])]
    return torch.stack([torch.stack(row) for row in rows])


def log_lm_only(logits: Tensor) -> Tensor:
    """``log softmax(z)``: the model without its memory, (B, T, V)."""
    return log_softmax(logits)


def log_joint(logits: Tensor, memory: Memory) -> Tensor:
    """``P(w) = (exp z_w + sum_{j: x_j = w} exp s_j) / (sum_v exp z_v + sum_j exp s_j)``, (B, T, V).

    Only visible entries count; where there is none this is the softmax. Source: TRIME eq. 3, HistAlign eq. 3.
    """

    def form(b: int, t: int) -> Tensor:
        stored, values = memory.seen(b, t)
        total = torch.logsumexp(torch.cat([logits[b, t], stored]), 0)
        words = logits[b, t].clone()
        for v in values.unique():
            words[v] = torch.logsumexp(torch.cat([logits[b, t, v, None], stored[values == v]]), 0)
        return words - total

    return _per_position(logits, form)


def log_cache_only(logits: Tensor, memory: Memory) -> Tensor:
    """``P_c(w) = sum_{j: x_j = w} exp s_j / sum_j exp s_j``, -inf where w is not stored, (B, T, V).

    Where nothing is stored there is no such distribution; BY DEFINITION the softmax speaks there, so every row is a
    distribution. Source: HistAlign, cache-only evaluation (there about -10000 for every word of an empty row).
    """

    def form(b: int, t: int) -> Tensor:
        stored, values = memory.seen(b, t)
        if len(stored) == 0:
            return log_softmax(logits[b, t])
        return _log_mass(stored, values, logits.shape[-1]) - torch.logsumexp(stored, 0)

    return _per_position(logits, form)


def log_linear(logits: Tensor, memory: Memory, weight: float) -> Tensor:
    """``P = (1 - w) softmax(z) + w P_cache``, (B, T, V); where nothing is stored, the softmax alone.

    Source: Grave et al. 2017, eq. 7; TRIME's linear interpolation (whose empty rows leak their own label).
    """
    softmax, cache = log_softmax(logits).exp(), log_cache_only(logits, memory).exp()
    return ((1 - weight) * softmax + weight * cache).log()
