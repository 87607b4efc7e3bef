"""Drawing by inverting a cumulative distribution: the same number gives the same token, whoever asks when."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def inverse_cumulative(cumulative: Float[Tensor, "B V"], uniform: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """The first place of each row where the sum exceeds the row's share of its total: never one of probability zero.

    >>> inverse_cumulative(torch.tensor([[0.0, 0.3, 0.3, 1.0]] * 3), torch.tensor([0.0, 0.29, 0.3]))
    tensor([1, 1, 3])
    """
    thresholds = uniform.to(cumulative)[:, None] * cumulative[:, -1:]
    places = torch.searchsorted(cumulative, thresholds, right=True)[:, 0]
    return places.clamp(max=cumulative.shape[1] - 1)


def drawn_at(scores: Float[Tensor, "B V"], uniform: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """A token of each row, drawn from the softmax of its scores by one number in [0, 1).

    Double precision: a sum of many small numbers in single precision would move tokens by whole probabilities.
    """
    return inverse_cumulative(scores.double().softmax(-1).cumsum(-1), uniform.to(scores.device))
