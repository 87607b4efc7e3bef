"""Inputs of a head's projections: the last state, or states of several layers and positions (Mi)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nextword.functional.probability import at_least_float32
from nextword.heads.context import HeadCacheView
from nextword.runtime.devices import precision_of
from nextword.settings.config import Settings
from nextword.settings.specs import Modifier, ModifierEntry, Modifiers

# -- The modifiers of heads: names that may follow a ``+`` in a head spec.

modifiers = Modifiers()
"""All modifiers by name. Each modifier fills one field of a head's config; a head accepts the modifiers whose fields it
has."""


# -- The inputs of a head's projections.


class MultiInputConfig(Settings):
    """Settings of the multiple input states."""

    layers: int | None = Field(default=None, ge=1)
    """Number of last decoder layers to read. None: 3 for a decoder-only model, 1 for an encoder-decoder model
    (published)."""
    window: int = Field(default=3, ge=1, le=10_000)
    """Number of positions to read from each layer: the current one and those just before it."""
    expansion: int = Field(default=1, ge=1, le=1000)
    """Width of the vector that is computed from these states, as a multiple of the width of the last state."""
    normalize: bool | None = None
    """Whether each state is divided by its root mean square first. In lower layers of a pretrained model, some states
    have norms of several hundred, which make training diverge. None: true if a pretrained model is trained, otherwise
    false (published)."""

    def for_pretrained(self) -> MultiInputConfig:
        """These settings for training a pretrained model: with normalised states, unless ``normalize`` is given."""
        return self.model_copy(update={"normalize": True}) if self.normalize is None else self


@modifiers.register("mi")
class MultiInputModifier(Modifier):
    """The modifier ``+mi`` or ``+mi:LAYERSxWINDOW``. A last argument ``norm`` or ``raw`` sets ``normalize``."""

    field: ClassVar[str] = "mi"
    usage: ClassVar[str] = "+mi or +mi:LAYERSxWINDOW, then norm or raw"
    entries: ClassVar[tuple[ModifierEntry, ...]] = (
        ModifierEntry(
            "+mi", "Multiple inputs: states of several layers and positions are read.", "softmax+mi:3x3", "mi"
        ),
    )

    @staticmethod
    def parse(name: str, arguments: list[str]) -> dict[str, Any]:
        is_said = bool(arguments) and arguments[-1] in _NORMALIZE
        settings: dict[str, Any] = {"normalize": _NORMALIZE[arguments[-1]]} if is_said else {}
        before = arguments[:-1] if is_said else arguments
        if not before:
            return settings
        sizes = before[0].split("x")
        if len(before) > 1 or len(sizes) != 2 or not all(size.isdecimal() for size in sizes):
            raise ValueError(
                f"'+mi' must be followed by layers x window such as mi:3x3 ({','.join(arguments)!r} given)"
            )
        return {"layers": int(sizes[0]), "window": int(sizes[1]), **settings}

    @staticmethod
    def write(value: MultiInputConfig | None) -> tuple[str, list[str]] | None:
        if value is None:
            return None
        sizes = [] if value.layers is None else [f"{value.layers}x{value.window}"]
        return "mi", [*sizes, *(name for name, given in _NORMALIZE.items() if given is value.normalize)]


_NORMALIZE = {"norm": True, "raw": False}


class LastState(nn.Module):
    """Takes the input of the output layer as the input of the projections: ``q_t = h_t``."""

    layers: int = 0
    """Number of last decoder layers that are read in addition."""
    before: int = 0
    """Number of positions read before the current one."""

    def __init__(self, dimensions: Dimensions) -> None:
        super().__init__()
        self.width = dimensions.hidden
        """Width of ``q_t``."""

    def forward(
        self,
        states: Float[Tensor, "B T D"],
        layers: tuple[Tensor, ...],
        valid: Bool[Tensor, "B T"],
        head_cache: HeadCacheView | None,
    ) -> Float[Tensor, "B T Q"]:
        """``q_t`` at every new position.

        Args:
            states: The input of the backbone's output layer.
            layers: The last ``self.layers`` decoder hidden states, the very last one first.
            valid: False at padding.
            head_cache: Cache with the positions just before the new ones; None if none are read.
        """
        return states


class InputBlock(LastState):
    """Computes ``q_t`` from several layers and positions (Mi).

    Formula::

        u_t = concat over layers i = 0.. and offsets j = 0.. of state[-1-i] at t-j, zero before the start
        q_t = concat(h_t, gelu(A u_t + a))

    A and a are learned. With ``normalize`` each ``state`` is divided by its root mean square.

    Source: Softmax-CPR, "multiple input hidden states" (Mi). The gelu is the tanh form, as published. The last layer is
    read after the final norm, the others without it. States at padding count as zero, like those before the start, so
    left padding does not change the result.

    Raises:
        ValueError: If the decoder has fewer layers than are read, or its layers have another width than the last state.
    """

    def __init__(self, config: MultiInputConfig, dimensions: Dimensions) -> None:
        super().__init__(dimensions)
        self.layers = config.layers or (1 if dimensions.is_encoder_decoder else 3)
        if self.layers > dimensions.layers:
            raise ValueError(
                f"+mi: layers must be at most the decoder's {dimensions.layers} ({self.layers} given); "
                f"+mi:{dimensions.layers}x{config.window} reads all of them"
            )
        if dimensions.layer != dimensions.hidden:
            raise ValueError(
                f"+mi: the output layer reads states {dimensions.hidden} wide and the decoder's layers are "
                f"{dimensions.layer} wide; +mi needs equal widths"
            )
        self.window = config.window
        self.before = config.window - 1
        self.normalize = bool(config.normalize)
        hidden = config.expansion * dimensions.hidden
        self.merge = nn.Linear(dimensions.layer * self.layers * self.window, hidden)
        self.width += hidden

    def forward(
        self, states: Tensor, layers: tuple[Tensor, ...], valid: Tensor, head_cache: HeadCacheView | None
    ) -> Tensor:
        read = torch.stack(layers, 2).masked_fill(~valid[..., None, None], 0.0)
        if self.normalize:
            read = F.rms_norm(at_least_float32(read), read.shape[-1:]).to(read.dtype)  # 0 stays 0
        if self.before:
            assert head_cache is not None
            read = head_cache.preceded("inputs", read, self.before)
        length = states.shape[1]
        # for the first new position, offset j is at index ``before - j``
        at = [slice(self.before - j, self.before - j + length) for j in range(self.window)]
        window = torch.cat([read[:, positions, i] for i in range(self.layers) for positions in at], -1)
        merged = self.merge(window.to(precision_of(self.merge)))
        return torch.cat([states, F.gelu(merged, approximate="tanh").to(states.dtype)], -1)


def input_states_of(config: MultiInputConfig | None, dimensions: Dimensions) -> LastState:
    """The module that computes the projections' input: an ``InputBlock``, or ``LastState`` if ``config`` is None."""
    return LastState(dimensions) if config is None else InputBlock(config, dimensions)


class Projection(nn.Linear):
    """Linear projection of ``q_t`` to a query, initialised as the identity on ``h_t``.

    Until it is trained, a pretrained model therefore predicts as without the projection. Projections whose product is
    added to a score start as the identity times a small ``scale``. Projections that would otherwise stay equal get
    random numbers with the standard deviation ``noise / sqrt(inputs)``.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True, scale: float = 1.0, noise: float = 0.0) -> None:
        self.scale, self.noise = scale, noise  # set before the base class initialises the weights
        super().__init__(inputs, outputs, bias=bias)

    def reset_parameters(self) -> None:
        """Sets the weight to ``scale`` times the identity on the first coordinates plus noise, the bias to zero."""
        if not getattr(self.weight, "_is_hf_initialized", False):  # true if a checkpoint has the weight but no bias
            with torch.no_grad():
                self.weight.copy_(self.scale * torch.eye(*self.weight.shape, device=self.weight.device))
                if self.noise:
                    self.weight.add_(torch.randn_like(self.weight), alpha=self.noise / self.in_features**0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


FAINT = 1e-10
"""Initial scale of a projection whose product is added to a score (published)."""


# -- The sizes of the model that a head is attached to.


@dataclass(frozen=True)
class Dimensions:
    """Sizes of the backbone of a head.

    Args:
        hidden: Width of the output layer's input (D).
        layer: Width of the decoder's hidden states; nearly always D.
        layers: Number of decoder layers.
        vocab_size: Number of tokens of the output layer (V).
        source: Width of the source's states: those of the encoder, or those of the auxiliary text that a conditioner
            adds to a decoder-only model. None: no source.
        auxiliary: Whether a source would be an auxiliary text: True for every decoder-only model.
        longest: Maximum number of positions of a text in the model's configuration; 16,384 if it has no limit.
    """

    hidden: int
    layer: int
    layers: int
    vocab_size: int
    source: int | None = None
    auxiliary: bool = False
    longest: int = 16_384

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the backbone has an encoder of its own."""
        return self.source is not None and not self.auxiliary
