"""What an objective returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """A loss before division: a sum over tokens and how many they are.

    The division is done once, over all accumulation steps and processes, never as a mean of means.

    Args:
        total: Sum over the tokens, in nats.
        tokens: Number of tokens that count.
        parts: Detached terms for the log, each a mean.
    """

    total: Float[Tensor, ""]
    tokens: int
    parts: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, total: Float[Tensor, ""], tokens: int, **sums: Float[Tensor, ""]) -> Loss:
        """With parts given as sums over the same tokens."""
        return cls(total, tokens, {name: (part / max(tokens, 1)).detach() for name, part in sums.items()})
