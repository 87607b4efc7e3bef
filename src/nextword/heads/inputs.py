"""What the projections of a head read: the last state alone, or several layers and positions (Mi)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nextword.config import Settings
from nextword.context import Context
from nextword.heads.dimensions import Dimensions
from nextword.heads.modifiers import modifiers

_STREAM = "layers"


class MultiInputConfig(Settings):
    """Settings of the multiple input states."""

    layers: int | None = Field(default=None, ge=1)
    """How many of the last decoder layers are read; by default 3 for a decoder-only model and 1 for an encoder-decoder,
    as published."""
    window: int = Field(default=3, ge=1)
    """How many positions are read of each layer: the current one and those just before it."""
    expansion: int = Field(default=1, ge=1)
    """Width of the hidden vector made of them, as a multiple of the width of the last state."""


@modifiers.register("mi")
class MultiInputModifier:
    """``+mi`` or ``+mi:LAYERSxWINDOW``."""

    field: ClassVar[str] = "mi"

    @staticmethod
    def parse(arguments: list[str]) -> dict[str, Any]:
        """``["3x3"]`` as settings."""
        if not arguments:
            return {}
        sizes = arguments[0].split("x")
        if len(arguments) > 1 or len(sizes) != 2 or not all(size.isdecimal() for size in sizes):
            raise ValueError(f"'+mi' is followed by layers x window such as mi:3x3, not {','.join(arguments)!r}")
        return {"layers": int(sizes[0]), "window": int(sizes[1])}

    @staticmethod
    def write(value: MultiInputConfig | None) -> list[str] | None:
        """Settings as ``["3x3"]``."""
        if value is None:
            return None
        return [] if value.layers is None else [f"{value.layers}x{value.window}"]


class InputBlock(nn.Module):
    """The vector ``q_t`` that every projection and gate of a head reads.

    Without multiple inputs ``q_t = h_t``, the state that the output layer reads. With them::

        u_t = concat over layers i = 0.. and offsets j = 0.. of state[-1-i] at t-j, zero before the start
        q_t = concat(h_t, gelu(A u_t + a))

    Source: Softmax-CPR, "multiple input hidden states" (Mi). The gelu is the tanh form, as published. The last layer
    is read after the final norm, the others before it. Padding counts as lying before the start, so a left-padded
    sequence gives what the sequence alone gives.

    Args:
        config: None for ``q_t = h_t``.
        dimensions: Sizes of the model.

    Raises:
        ValueError: More layers asked for than the decoder has, or layers of another width than the last state.
    """

    def __init__(self, config: MultiInputConfig | None, dimensions: Dimensions) -> None:
        super().__init__()
        self.width = dimensions.hidden
        self.layers = 0
        if config is None:
            return
        self.layers = config.layers or (1 if dimensions.is_encoder_decoder else 3)
        if self.layers > dimensions.layers:
            raise ValueError(f"+mi: {self.layers} layers asked for, the decoder has {dimensions.layers}")
        if dimensions.layer != dimensions.hidden:
            raise ValueError(
                f"+mi: the output layer reads states {dimensions.hidden} wide and the decoder's layers are "
                f"{dimensions.layer} wide, so they cannot be read side by side"
            )
        self.window = config.window
        hidden = config.expansion * dimensions.hidden
        self.merge = nn.Linear(dimensions.layer * self.layers * self.window, hidden)
        self.width += hidden

    def streams(self, layers: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """The layers to keep of each place; nothing without multiple inputs."""
        return {_STREAM: torch.stack(layers, 2)} if self.layers else {}

    def forward(self, context: Context) -> Float[Tensor, "N Q"]:
        """``q_t`` at every position of the context."""
        if not self.layers:
            return context.states
        assert context.memory is not None
        stored, valid = context.memory.streams[_STREAM], context.memory.valid
        places = context.position[:, None] - torch.arange(self.window, device=stored.device)
        known = places >= 0
        row, places = context.row[:, None], places.clamp_min(0)
        known = known & valid[row, places]
        window = stored[row, places].masked_fill(~known[..., None, None], 0.0)  # (N, window, layers, width)
        merged = self.merge(window.transpose(1, 2).flatten(1).to(self.merge.weight.dtype))
        return torch.cat([context.states, F.gelu(merged, approximate="tanh").to(context.states.dtype)], -1)


class Projection(nn.Linear):
    """A map from ``q_t`` to a query of the output embedding, the identity on ``h_t`` at the start.

    Attached to a pretrained model it therefore changes nothing before it is trained.
    """

    def reset_parameters(self) -> None:
        """Identity on the first coordinates, zero on the rest and in the bias."""
        nn.init.eye_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
