"""Plain softmax, and softmax over a projection of one or several states."""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from nextword.distribution import NextToken, SoftmaxDistribution
from nextword.heads.context import Context
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.input_states import Dimensions, MultiInputConfig, Projection, modifiers
from nextword.heads.partitions import PartitionConfig, partition_of
from nextword.settings.specs import Modifier, ModifierEntry


@modifiers.register("proj")
class ProjectionModifier(Modifier):
    """The modifier ``+proj``, which puts a learned projection before the output layer."""

    field: ClassVar[str] = "proj"
    usage: ClassVar[str] = "+proj"
    entries: ClassVar[tuple[ModifierEntry, ...]] = (
        ModifierEntry(
            "+proj", "A learned map of the state, before the output layer reads it.", "softmax+proj", "softmax"
        ),
    )

    @staticmethod
    def parse(name: str, arguments: list[str]) -> bool:
        if arguments:
            raise ValueError(f"'+proj' takes no arguments ({','.join(arguments)!r} given)")
        return True

    @staticmethod
    def write(value: bool) -> tuple[str, list[str]] | None:
        return ("proj", []) if value else None


class SoftmaxConfig(HeadConfig):
    """Settings of the softmax head."""

    head: Literal["softmax"] = "softmax"
    proj: bool = False
    """Whether a learned projection precedes the output layer. With ``mi`` or ``partition`` it always does."""
    partition: PartitionConfig | None = None
    """Tokens that are scored by separate queries: those of the context, of the source, or the best candidates. None: no
    tokens."""
    mi: MultiInputConfig | None = None
    """Multiple input states; None: only the last state."""
    bias: bool = True
    """Whether the projection has a bias (published: GPT-2 yes, T5 no)."""


@registry.register("softmax")
class SoftmaxHead(Head):
    """The backbone's own softmax, or with ``+proj`` or ``+mi`` a softmax over a learned projection of its states.

    Formula: ``P(w) = softmax_w(f_t . e_w)`` with ``f_t = h_t``, or ``f_t = S q_t + b`` with ``+proj`` (``q_t = h_t``)
    and ``+mi`` (``q_t`` of ``InputBlock``). With partitions such as ``+cpr:20,100``, ``Partition`` gives some tokens
    new scores.

    Expresses: log-probability matrices of rank at most D + 1. ``+mi`` computes the query from earlier layers and
    positions too, but does not remove this bound. Costs: nothing for plain ``softmax``; with ``+proj``, one D x D
    product; with ``+mi``, also a product with a vector of width layers x window x D.

    Partitions remove the bound: context tokens, source tokens and candidates have separate queries.

    Source: Softmax-CPR, rows "Softmax" (``softmax+proj``), "Softmax + Mi" and "Softmax + C", "+ P", "+ R", "+ E" with
    their combinations.

    Differs from the published code: plain ``softmax`` adds no parameter and returns the backbone's own scores bit for
    bit; the published code has the gate of a mixture with one component.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("softmax+mi").mi.window
        3
    """

    Config = SoftmaxConfig

    def __init__(self, config: SoftmaxConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.is_identity = config.mi is None and config.partition is None and not config.proj
        self.project = (
            nn.Identity() if self.is_identity else Projection(self.inputs.width, dimensions.hidden, bias=config.bias)
        )
        self.partition = partition_of(config.partition, self.inputs.width, dimensions, config.bias)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        return SoftmaxDistribution(context.vocabulary, self.project(context.inputs), edits=self.partition(context))

    def logits(self, distribution: NextToken) -> Float[Tensor, "N V"]:
        """Log-probabilities, or for plain ``softmax`` the backbone's own scores."""
        if self.is_identity and isinstance(distribution, SoftmaxDistribution):
            return distribution.columns.whole(distribution.vocabulary(distribution.states))
        return distribution.log_probs()
