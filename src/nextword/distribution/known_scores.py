"""KnownScores: a softmax over scores that are there already, such as the logits of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.functional.chunked.inplace import log_softmax_
from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.logspace import at_least_float32

_BLOCK_BYTES = {"cpu": 2**22}
"""Bytes of scores that are normalised at once, by device. On a CPU they stay in its cache."""
_BLOCK_BYTES_ELSEWHERE = 2**26


class KnownScores(NextToken):
    """``P = softmax(scores[row])`` at each of N positions; log-probabilities are such scores too.

    Scores are read where they lie, some rows at a time, and never copied as a whole.

    Args:
        scores: Scores of M positions; they are not changed.
        row: Which of them each of the N positions is.
    """

    def __init__(self, scores: Float[Tensor, "M V"], row: Int[Tensor, "N"]) -> None:
        self.scores = scores
        self.row = row
        self.vocab_size = scores.shape[1]
        self.device = scores.device

    def __len__(self) -> int:
        return len(self.row)

    def map(self, change: Callable[[Tensor], Tensor]) -> KnownScores:
        """With ``change`` made to which rows they are."""
        return KnownScores(self.scores, change(self.row))

    def shared(self) -> list[Tensor]:
        """The scores."""
        return [self.scores]

    def _blocks(self) -> Iterator[tuple[slice, Float[Tensor, "_R V"]]]:
        """Log-probabilities of some positions after others."""
        block_bytes = _BLOCK_BYTES.get(self.device.type, _BLOCK_BYTES_ELSEWHERE)
        size = max(1, block_bytes // (4 * max(1, self.vocab_size)))
        for start in range(0, max(1, len(self)), size):
            rows = slice(start, start + size)
            yield rows, log_softmax_(at_least_float32(self.scores[self.row[rows]]))

    def _log_probs(self) -> Float[Tensor, "N V"]:
        return torch.cat([log_probs for _, log_probs in self._blocks()])

    def _log_prob(self, ids: Int[Tensor, "N K"], single_pass: SinglePass | None = None) -> Float[Tensor, "N K"]:
        return torch.cat([log_probs.gather(1, ids[rows]) for rows, log_probs in self._blocks()])

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        return {"scores": self._log_prob(ids)}
