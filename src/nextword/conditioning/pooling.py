"""LMH and DAU: pool the auxiliary text into one vector and add an offset to the logits of all tokens."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nextword.conditioning.conditioner import Conditioner, ConditionerConfig, OutputProjection, registry
from nextword.distribution import Shifted, Vocabulary
from nextword.heads import Dimensions

Pooling = Literal["mean", "max"]


class PooledConfig(ConditionerConfig):
    """Settings of conditioners that pool the auxiliary text into one vector."""

    published: ClassVar[Mapping[str, Any]] = {"start": "random", "trains": "new"}

    pooling: Pooling = "mean"
    """Pooling of the encoder's states over the auxiliary text's tokens: mean ("avg" in the report) or maximum."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of a spec such as ``lmh:max``."""
        if not arguments:
            return {}
        if len(arguments) > 1 or arguments[0] not in ("mean", "max"):
            raise ValueError(f"must be followed by mean or max ({','.join(arguments)!r} given)")
        return {"pooling": arguments[0]}

    def arguments(self) -> list[str]:
        """Returns the arguments of the spec: the pooling, unless it is the mean."""
        return [] if self.pooling == "mean" else [self.pooling]


def pooled(states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"], pooling: Pooling) -> Float[Tensor, "B E"]:
    """Returns the mean or elementwise maximum of ``states`` over the ``valid`` tokens, which include special tokens."""
    if pooling == "max":
        return states.masked_fill(~valid[..., None], -torch.inf).amax(1)
    return states.masked_fill(~valid[..., None], 0.0).sum(1) / valid.sum(1, keepdim=True)


class PooledConditioner(Conditioner, ABC):
    """Base class of LMH and DAU: adds ``U p + b`` to the logits at every position; p is the encoder's pooled state."""

    changes_states = False

    def __init__(self, config: PooledConfig, dimensions: Dimensions, attention_heads: int) -> None:
        super().__init__(config, dimensions, attention_heads)
        self.project = OutputProjection(self.width, dimensions.vocab_size, config.start)

    def read(self, states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"]) -> dict[str, Tensor]:
        """Computes ``U p + b`` from the encoder's ``states``."""
        return {"scores": self.project(pooled(states, valid, self.config.pooling))}

    def output_layer(self, vocabulary: Vocabulary, kept: Mapping[str, Tensor]) -> Vocabulary:
        """Returns the output layer with the offset ``U p + b`` added to its logits."""
        scores = kept["scores"]
        return Shifted(vocabulary, scores, torch.arange(len(scores), device=scores.device))

    def resized(self, vocab_size: int) -> None:
        """Changes the number of tokens to ``vocab_size``; new tokens get the offset 0."""
        self.project.resize(vocab_size)


# -- LMH: the output layer reads the decoder's last state concatenated with the pooled auxiliary text.


class LmHeadConfig(PooledConfig):
    """Settings of LMH."""

    conditioner: Literal["lmh"] = "lmh"

    @property
    def unties(self) -> bool:
        """Whether the output layer is untied from the input embedding: always true."""
        return True


@registry.register("lmh")
class LmHeadConditioner(PooledConditioner):
    """Trains the output layer, which reads the decoder's state concatenated with a pooled vector of the auxiliary text.

    Formula: with the pooled states p of the encoder and an output layer ``[W U]`` of width D + E::

        z = [W U] [h_t; p] + b = W h_t + (U p + b)

    The code computes the form on the right: ``U p + b`` once per auxiliary text, ``W h_t`` at every position. W is the
    backbone's own output layer, untied from its input embedding, so heads, LoRA and quantisation work as usual. If the
    model caps or scales its logits, only ``W h_t`` is capped or scaled.

    Effect: tokens related to the auxiliary text get a bias at all positions. Cost: V (D + E) parameters.

    W, U, b and the head are trained; encoder and decoder are frozen. Initially W is the pretrained output layer, U = 0
    and b = 0, so predictions do not change. With ``lmh:published``, W and U start at random.

    Source: He, Chen and Kim 2020, section 3.2 (BERT-GPT LMH).

    Examples:
        >>> from nextword.conditioning import parse_conditioner
        >>> parse_conditioner("lmh").pooling
        'mean'
    """

    Config = LmHeadConfig


# -- DAU: a linear layer on the pooled auxiliary text adds an offset to the logits.


class DistributionAdjustmentConfig(PooledConfig):
    """Settings of DAU."""

    conditioner: Literal["dau"] = "dau"


@registry.register("dau")
class DistributionAdjustmentConditioner(PooledConditioner):
    """A linear layer maps the pooled auxiliary text to V numbers, which are added to the decoder's logits.

    Formula: with the pooled states p of the encoder, ``z = W h_t + (U p + b)``.

    Effect: tokens of the topic are more probable throughout the text. The offset is the same at every position: DAU is
    LMH without a new W. Cost: V E parameters, one product per auxiliary text.

    U, b and the head are trained; encoder and decoder are frozen. Initially U = 0 and b = 0, so predictions do not
    change; with ``dau:published``, U starts at small random numbers.

    Source: He, Chen and Kim 2020, section 3.3 (BERT-GPT DAU).

    Examples:
        >>> from nextword.conditioning import parse_conditioner
        >>> parse_conditioner("dau:max").trains
        'new'
    """

    Config = DistributionAdjustmentConfig
