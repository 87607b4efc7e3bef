"""Distributions with one planted mistake each; the checker must find every one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nextword.distribution import SoftmaxDistribution


class Planted(SoftmaxDistribution):
    """Stays what it is when rows are cut out of it."""

    def map(self, change: Any) -> Any:
        return type(self)(self.vocabulary, change(self.states))


class Unnormalised(Planted):
    def _log_probs(self) -> Tensor:
        return super()._log_probs() - 0.01

    def _log_prob(self, ids: Tensor, fused_backward: object = None) -> Tensor:
        return super()._log_prob(ids) - 0.01

    def _log_sources(self, ids: Tensor) -> dict[str, Tensor]:
        return {name: share - 0.01 for name, share in super()._log_sources(ids).items()}


class TooMuch(Unnormalised):
    def _log_probs(self) -> Tensor:
        return self.dense()

    def _log_prob(self, ids: Tensor, fused_backward: object = None) -> Tensor:
        return self.dense().gather(1, ids)

    def _log_sources(self, ids: Tensor) -> dict[str, Tensor]:
        return {"softmax": self.dense().gather(1, ids)}


class HiddenZero(Planted):
    """Decoding can never choose token 7; training believes it can."""

    def _log_probs(self) -> Tensor:
        return self.dense().index_fill(1, torch.tensor([7]), -torch.inf).log_softmax(-1)

    def _log_sources(self, ids: Tensor) -> dict[str, Tensor]:
        return {"softmax": self._log_probs().gather(1, ids)}

    def _log_prob(self, ids: Tensor, fused_backward: object = None) -> Tensor:
        return self._log_probs().gather(1, ids).clamp_min(-50.0)


class HiddenZeroInTraining(Planted):
    """The other way round."""

    def _log_prob(self, ids: Tensor, fused_backward: object = None) -> Tensor:
        return super()._log_prob(ids).masked_fill(ids == 7, -torch.inf)


class LostSource(Planted):
    def _log_sources(self, ids: Tensor) -> dict[str, Tensor]:
        shares = super()._log_sources(ids)
        return {name: share - 0.001 for name, share in shares.items()}


class NegativeSource(Planted):
    def sources(self, ids: Tensor) -> dict[str, Tensor]:
        shares = super().sources(ids)
        return {name: share + 0.2 for name, share in shares.items()} | {"less": torch.full(ids.shape, -0.2)}


class PlaceBeside(SoftmaxDistribution):
    """Credits the place after the one that a token was copied from."""

    def positions(self) -> dict[str, Tensor]:
        return {name: shares.roll(1, 1) for name, shares in super().positions().items()}


class NotANumber(Planted):
    def _log_probs(self) -> Tensor:
        return super()._log_probs().index_fill(1, torch.tensor([7]), torch.nan)

    def _log_prob(self, ids: Tensor, fused_backward: object = None) -> Tensor:
        return self._log_probs().gather(1, ids)

    def _log_sources(self, ids: Tensor) -> dict[str, Tensor]:
        return {"softmax": self._log_prob(ids)}


class SumsOverRows(Planted):
    """Centres its scores over all rows at hand, as a batch norm would."""

    def dense(self, fused_backward: object = None) -> Tensor:
        scores = super().dense()
        return scores * (1 + 0.01 * scores.std(correction=0))


class WrongEntropy(Planted):
    def entropy(self) -> Tensor:
        return super().entropy() / 0.6931


class WrongTop(Planted):
    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        values, ids = super().top_k(k)
        return values, ids.roll(1, 0)


class Dropped(Planted):
    """Forgets to ask whether it is in training."""

    def dense(self, fused_backward: object = None) -> Tensor:
        return torch.nn.functional.dropout(super().dense(), 0.1)
