"""What backbones do to their scores after the output layer: a cap, a scale, a bias."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel


class Adjustment(ABC):
    """Something done to the scores after the output layer."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, backbone: PreTrainedModel) -> Adjustment | None:
        """This adjustment as ``backbone`` makes it, None where it makes none."""

    @abstractmethod
    def __call__(self, scores: Float[Tensor, "*rows V"], ids: Int[Tensor, "*#rows V"] | None = None) -> Tensor:
        """The adjusted scores.

        Args:
            scores: Of every token, or of few.
            ids: Which tokens these are; None for every token in order.
        """


class _ByNumber(Adjustment):
    """An adjustment whose one number stands in the model's configuration."""

    keys: ClassVar[tuple[str, ...]]

    def __init__(self, number: float) -> None:
        self.number = number

    @classmethod
    def of(cls, backbone: PreTrainedModel) -> Adjustment | None:
        """Present where the configuration has the number."""
        config = backbone.config
        # T5 and its like keep one configuration for both sides, and copy all of it when asked for the decoder's
        if not config.is_encoder_decoder or config.sub_configs:
            config = config.get_text_config(decoder=True)
        numbers = (getattr(config, key, None) for key in cls.keys)
        number = next((number for number in numbers if number is not None), None)
        return None if number is None else cls(number)


class SoftCap(_ByNumber):
    """``cap * tanh(z / cap)`` (Gemma 2 and its relatives, RecurrentGemma, xLSTM)."""

    name, keys = "soft_cap", ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")

    def __call__(self, scores: Float[Tensor, "*rows V"], ids: Int[Tensor, "*#rows V"] | None = None) -> Tensor:
        """Scores within plus or minus the cap."""
        return torch.tanh(scores / self.number) * self.number


class Multiply(_ByNumber):
    """``z * scale`` (Cohere)."""

    name, keys = "multiply", ("logit_scale",)

    def __call__(self, scores: Float[Tensor, "*rows V"], ids: Int[Tensor, "*#rows V"] | None = None) -> Tensor:
        """Scaled scores."""
        return scores * self.number


class Divide(_ByNumber):
    """``z / scale`` (Granite)."""

    name, keys = "divide", ("logits_scaling",)

    def __call__(self, scores: Float[Tensor, "*rows V"], ids: Int[Tensor, "*#rows V"] | None = None) -> Tensor:
        """Scaled scores."""
        return scores / self.number


class AddBias(Adjustment):
    """``z + bias`` with a bias kept outside the output layer (BART, Marian)."""

    name = "bias"

    def __init__(self, bias: Tensor) -> None:
        self.bias = bias

    @classmethod
    def of(cls, backbone: PreTrainedModel) -> Adjustment | None:
        """Present where the model has a ``final_logits_bias``."""
        bias = getattr(backbone, "final_logits_bias", None)
        return None if bias is None else cls(bias.flatten())

    def __call__(self, scores: Float[Tensor, "*rows V"], ids: Int[Tensor, "*#rows V"] | None = None) -> Tensor:
        """Scores with the bias."""
        bias = self.bias.to(scores.device)
        return scores + (bias if ids is None else bias[ids])


KNOWN_ADJUSTMENTS: tuple[type[Adjustment], ...] = (SoftCap, Multiply, Divide, AddBias)
