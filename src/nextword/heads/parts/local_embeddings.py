"""Local embeddings: an embedding of each place of the text or source, made from the states there."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.logspace import at_least_float32
from nextword.functional.products.keys_in_place import Keys
from nextword.functional.stored_entries import Entries, TextRead
from nextword.heads.context import Context
from nextword.heads.head import HeadConfig, Keeper
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.input_states import FAINT, MultiInputConfig, Projection
from nextword.heads.parts.visible import past_places, source_places
from nextword.runtime.devices import precision_of


class PointerConfig(HeadConfig):
    """Settings of every head that points at places of the text or source."""

    mi: MultiInputConfig | None = None
    """Multiple input states of the projections; None reads the last state alone."""
    bias: bool = True
    """Whether the projections have a bias (published: GPT-2 yes, T5 no)."""
    include_current: bool = False
    """Whether a position may point at its own token."""


class LocalEmbeddings(Keeper):
    """Queries and local embeddings: ``p_t = PD q_t`` and ``e_s = LD q_s``.

    Over the source they are ``p_t = PE q_t`` and ``e_s = LE state_s`` of the encoder's states.

    Source: Softmax-CPR, "local" word embeddings of the pointer partition and of the pointer baselines.

    Args:
        width: Width of ``q_t``.
        dimensions: Sizes of the model.
        source: Whether the places are those of the source.
        bias: Whether the projections have biases; LE has none (published).
        include_current: Whether a position sees its own token.
        activation: Applied to the local embeddings.
    """

    remembers = True

    def __init__(
        self,
        width: int,
        dimensions: Dimensions,
        *,
        source: bool,
        bias: bool,
        include_current: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.reads_source = source
        self.include_current = include_current
        self.activation = activation
        self.query = Projection(width, dimensions.hidden, bias=bias, scale=FAINT)
        read = dimensions.source if source else width
        assert read is not None
        self.key = Projection(read, dimensions.hidden, bias=bias and not source, scale=FAINT)

    @classmethod
    def of_pointer(
        cls,
        config: PointerConfig,
        width: int,
        dimensions: Dimensions,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> LocalEmbeddings:
        """Those of a head that points into the source where there is one, and else into its own past."""
        return cls(
            width,
            dimensions,
            source=dimensions.source is not None,
            bias=config.bias,
            include_current=config.include_current,
            activation=activation,
        )

    def _embedded(self, states: Tensor) -> Tensor:
        embedded = _mapped(self.key, states)
        return embedded if self.activation is None else self.activation(embedded)

    def queries(self, context: Context) -> Float[Tensor, "N D"]:
        """``p_t`` at each position."""
        return _mapped(self.query, context.inputs)

    def streams(self, inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """The local embedding of each new place."""
        return {} if self.reads_source else {"local": self._embedded(inputs)}

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        """The local embedding of each source position."""
        return {"local": self._embedded(states)} if self.reads_source else {}

    def places(self, context: Context) -> tuple[Int[Tensor, "B S"], Keys, Bool[Tensor, "N S"]]:
        """Token and local embedding of each place, and which places each position sees."""
        if self.reads_source:
            assert context.source is not None
            return context.source.ids, at_least_float32(context.source.streams["local"]), source_places(context)
        assert context.memory is not None
        visible = past_places(context, self.include_current)
        return context.memory.ids, context.memory.keys("local"), visible

    @property
    def text(self) -> TextRead:
        """Which text the places are of."""
        return "source" if self.reads_source else "text"

    def entries(self, context: Context) -> Entries:
        """The places with ``p_t . e_s`` as their scores."""
        ids, keys, visible = self.places(context)
        scores = context.similarities(self.queries(context), keys)
        return Entries(ids, context.row, scores, visible, text=self.text)


def _mapped(projection: Projection, states: Tensor) -> Tensor:
    """The projection, not under autocast to float16: that has no number as small as its weights at the start."""
    device = states.device.type
    if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) is not torch.float16:
        return at_least_float32(projection(states))
    with torch.autocast(device, enabled=False):
        return at_least_float32(projection(states.to(precision_of(projection))))
