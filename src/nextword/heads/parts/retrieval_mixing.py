"""How retrieved tokens meet the distribution of the head below."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nextword.distribution import Interpolated, NextToken, Retrieved
from nextword.heads.parts.over_head import normalised_jointly
from nextword.runtime.devices import precision_of


class Mixing(nn.Module, ABC):
    """A way to mix; made with the weight that it has, or starts from."""

    def __init__(self, weight: float) -> None:
        super().__init__()

    def start_from(self, weight: float) -> None:
        """Begins anew with another weight; where nothing is learned there is nothing to do."""

    @abstractmethod
    def forward(self, below: NextToken, found: Retrieved, name: str, weight: float) -> NextToken:
        """The distribution of both, over the positions of each.

        Args:
            below: Of the head below.
            found: What was retrieved.
            name: Of the component.
            weight: Share of what was retrieved, where it is fixed.
        """


class FixedWeight(Mixing):
    """``(1 - weight) P_below + weight P_retrieved``."""

    def forward(self, below: NextToken, found: Retrieved, name: str, weight: float) -> NextToken:
        """The interpolation; the head below speaks alone where nothing was found."""
        shares = found.scores.new_tensor([1 - weight, weight]).log().expand(len(found.scores), 2)
        return Interpolated(below, found, shares[:, 0], shares[:, 1], name)


class ConfidenceGate(Mixing):
    """A weight at each position, from how near the nearest key is and how much what was found agrees.

    It starts as the fixed weight and has three numbers to learn.
    """

    def __init__(self, weight: float) -> None:
        super().__init__(weight)
        self.linear = nn.Linear(2, 1)
        self.start_from(weight)

    def start_from(self, weight: float) -> None:
        """The same weight everywhere."""
        self._begin = math.log(weight) - math.log1p(-weight) if 0 < weight < 1 else 0.0
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The same weight everywhere."""
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, self._begin)

    def forward(self, below: NextToken, found: Retrieved, name: str, weight: float) -> NextToken:
        """The interpolation with the gate's weights."""
        logit = self.linear(self._confidence(found).to(precision_of(self.linear)))[:, 0].to(found.scores.dtype)
        return Interpolated(below, found, F.logsigmoid(-logit), F.logsigmoid(logit), name)

    @staticmethod
    @torch.no_grad()
    def _confidence(found: Retrieved) -> Float[Tensor, "N 2"]:
        """Score of the nearest key, its size as a logarithm; and the share of the most probable token."""
        seen, (relative, peak) = found.any_visible(), found.relative()
        share = relative.by_place().exp()
        same = (found.ids[:, :, None] == found.ids[:, None, :]).to(share.dtype)
        agreed = (same @ share[:, :, None])[:, :, 0].amax(1) / share.sum(1).clamp_min(1e-30)
        columns = torch.stack([peak.sign() * peak.abs().log1p(), agreed], 1)
        return columns.masked_fill(~seen[:, None], 0.0)


class Joint(Mixing):
    """One normaliser over the vocabulary's scores and those of what was retrieved (TRIME's external memory)."""

    def forward(self, below: NextToken, found: Retrieved, name: str, weight: float) -> NextToken:
        """The joint distribution."""
        return normalised_jointly(below, {name: found}, f"{name}: mix=joint")


MIXINGS: dict[str, type[Mixing]] = {"fixed": FixedWeight, "gate": ConfidenceGate, "joint": Joint}
"""By the name that a setting gives them."""
