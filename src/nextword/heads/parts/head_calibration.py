"""What a head's settings are chosen by, without training: gathered in one pass over held-out tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from nextword.heads.context import Context


@dataclass(frozen=True, eq=False)
class Optimum:
    """The settings under which held-out tokens are most likely.

    Attributes:
        settings: They.
        log_probs: Log-probability of each token under them, in nats.
        alone: The same under the distribution that the head adds to, such as the softmax.
        silent: Settings under which the head adds nothing; None where it has none.
        curve: Settings that were tried, with the nats per token under each.
    """

    settings: dict[str, Any]
    log_probs: Float[np.ndarray, "N"]
    alone: Float[np.ndarray, "N"]
    silent: dict[str, Any] | None
    curve: list[tuple[dict[str, Any], float]]


class Calibration(ABC):
    """Reads tokens once, and knows then how likely they are under every setting.

    ``Head.calibration`` makes one for one pass. What it keeps of a token does not grow with the settings that are tried
    nor with what the head has stored, and does not depend on how the head is set.
    """

    @abstractmethod
    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """Keeps what is needed of K tokens at each position.

        Returns:
            Their log-probabilities under the distribution that the head adds to.
        """

    @abstractmethod
    def optimum(self) -> Optimum:
        """The best settings for all that was read.

        Raises:
            ValueError: Nothing was read.
        """

    def apply(self, model: Any, settings: Mapping[str, Any]) -> None:
        """Leaves a model with settings of an optimum."""
        model.configure_head(**settings)
