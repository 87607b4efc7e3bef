"""Plain softmax, and softmax over a projection of one or several states."""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from nextword.context import Context
from nextword.distribution import NextToken, Scores
from nextword.heads.dimensions import Dimensions
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.inputs import MultiInputConfig, Projection
from nextword.heads.modifiers import modifiers


@modifiers.register("proj")
class ProjectionModifier:
    """``+proj``."""

    field: ClassVar[str] = "proj"

    @staticmethod
    def parse(arguments: list[str]) -> bool:
        """True; it takes no arguments."""
        if arguments:
            raise ValueError(f"'+proj' takes no arguments, {','.join(arguments)!r} given")
        return True

    @staticmethod
    def write(value: bool) -> list[str] | None:
        """No arguments where the projection is on."""
        return [] if value else None


class SoftmaxConfig(HeadConfig):
    """Settings of the softmax head."""

    head: Literal["softmax"] = "softmax"
    proj: bool = False
    """Whether the state is projected first; multiple inputs always are."""
    mi: MultiInputConfig | None = None
    """Multiple input states; None reads the last state alone."""
    bias: bool = True
    """Whether the projection has a bias (published: GPT-2 yes, T5 no)."""


@registry.register("softmax")
class SoftmaxHead(Head):
    """The backbone's own softmax; with ``+proj`` or ``+mi`` over a learned projection of its states.

    Formula: ``P(w) = softmax_w(f_t . e_w)`` with ``f_t = h_t``, or ``f_t = S q_t + b`` with ``+proj`` (``q_t = h_t``)
    and ``+mi`` (``q_t`` of :class:`~nextword.heads.inputs.InputBlock`).

    Expresses: log-probability matrices of rank at most D + 1; ``+mi`` lets earlier layers and positions choose the
    query but does not lift that bound. Costs: nothing; one D x D product with ``+proj``; one more of width layers x
    window x D with ``+mi``.

    Source: Softmax-CPR, rows "Softmax" (``softmax+proj``) and "Softmax + Mi".

    Differs from the published code: plain ``softmax`` adds no parameter and returns the backbone's own scores bit for
    bit; no gate of a one-component mixture is kept.

    Example:
        >>> from nextword.heads import parse_head
        >>> parse_head("softmax+mi").mi.window
        3
    """

    Config = SoftmaxConfig

    def __init__(self, config: SoftmaxConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.is_identity = config.mi is None and not config.proj
        self.project = (
            nn.Identity() if self.is_identity else Projection(self.inputs.width, dimensions.hidden, bias=config.bias)
        )

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """One softmax."""
        return Scores(context.vocabulary, self.project(self.inputs(context)))

    def logits(self, distribution: NextToken) -> Float[Tensor, "N V"]:
        """Log-probabilities; for plain ``softmax`` the backbone's own scores, as if nothing were attached."""
        if self.is_identity and isinstance(distribution, Scores):
            return distribution.vocabulary(distribution.states)
        return distribution.log_probs()
