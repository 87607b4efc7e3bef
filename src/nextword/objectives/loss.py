"""What an objective returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, distributed

from nextword.settings.specs import Modifiers


@dataclass(frozen=True)
class Loss:
    """A loss before division: a sum over tokens and how many they are.

    The division is done once, over all accumulation steps and processes, never as a mean of means. The sum is in nats;
    ``parts`` are detached terms for the log, each a mean.
    """

    total: Float[Tensor, ""]
    tokens: int
    parts: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, total: Float[Tensor, ""], tokens: int, **sums: Float[Tensor, ""]) -> Loss:
        """With parts given as sums over the same tokens."""
        return cls(total, tokens, {name: (part / max(tokens, 1)).detach() for name, part in sums.items()})


# -- Sums over all processes of a distributed training.


def summed_over_processes(values: Tensor) -> Tensor:
    """The sum of every process's ``values``; the values themselves where there is one process.

    All processes have to ask in the same order, as for gradients.

    >>> summed_over_processes(torch.tensor([1, 2]))
    tensor([1, 2])
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return values
    total = values.clone()
    distributed.all_reduce(total)
    return total


def on_every_process(here: bool, device: torch.device) -> bool:
    """Whether ``here`` is true on all of them; for choices that every process has to make alike.

    >>> on_every_process(True, torch.device("cpu"))
    True
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return here
    return not int(summed_over_processes(torch.tensor(int(not here), device=device)))


# -- The modifiers of objectives: what a ``+`` in an objective spec may be followed by.

modifiers = Modifiers()
"""All by name. Each fills a field of an objective's config, and an objective takes those whose fields it has."""
