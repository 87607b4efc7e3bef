"""The contract of a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from nextword.config import SpecSettings
from nextword.context import Context
from nextword.distribution import NextToken
from nextword.functional.entries import Entries
from nextword.heads.dimensions import Dimensions
from nextword.heads.inputs import InputBlock
from nextword.registry import Registry


class HeadConfig(SpecSettings):
    """Settings that every head has."""

    head: str
    """Registered name of the head."""


class Head(nn.Module, ABC):
    """Turns hidden states and what it remembers into a :class:`~nextword.distribution.NextToken` distribution.

    A concrete head is final (nobody inherits from it), stands in one file of ``nextword/heads`` with its ``Config``,
    and is found through ``@registry.register("name")``. What its projections and gates read is
    ``self.inputs(context)``, which a config field ``mi`` widens to several layers and positions.

    Args:
        config: The head's settings.
        dimensions: Sizes of the model it sits on.

    Raises:
        ValueError: The head cannot sit on such a model; the message says why.
    """

    Config: ClassVar[type[HeadConfig]]
    modes: ClassVar[tuple[str, ...]] = ("joint",)
    """What may be evaluated apart: ``joint`` is the whole distribution."""
    adjustable: ClassVar[frozenset[str]] = frozenset()
    """Settings that may be changed on a built head, because no parameter depends on them."""

    def __init__(self, config: HeadConfig, dimensions: Dimensions) -> None:
        super().__init__()
        self.config: Any = config
        self.dimensions = dimensions
        self.inputs = InputBlock(getattr(config, "mi", None), dimensions)

    @property
    def layers(self) -> int:
        """How many of the last decoder hidden states :meth:`streams` reads."""
        return self.inputs.layers

    @property
    def remembers(self) -> bool:
        """Whether the head looks at earlier places of the decoder's sequence; multiple inputs do."""
        return self.inputs.layers > 0

    @property
    def reads_source(self) -> bool:
        """Whether the head looks at the encoder's words and states."""
        return False

    def streams(self, states: Float[Tensor, "B T D"], layers: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """What to keep of each place for later steps, by name, (B, T, ...) each; the token ids are kept anyway.

        Args:
            states: What the backbone feeds its output layer.
            layers: The last ``self.layers`` decoder hidden states, the very last one first.
        """
        return self.inputs.streams(layers)

    @abstractmethod
    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """The distribution at every position of the context.

        Args:
            context: All that the head may look at.
            mode: One of :attr:`modes`; None for what the head is set to.
        """

    def logits(self, distribution: NextToken) -> Float[Tensor, "N V"]:
        """What the model returns as ``logits``: normalised log-probabilities."""
        return distribution.log_probs()


@runtime_checkable
class RemembersTokens(Protocol):
    """A head with stored tokens, scored by similarity: what alignment objectives train."""

    def entries(self, context: Context) -> Entries:
        """The stored tokens with the similarity of each as seen from every position."""
        ...


registry: Registry[type[Head]] = Registry("head")
"""All heads by name."""
