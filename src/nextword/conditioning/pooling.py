"""One vector of a whole auxiliary text, which shifts the scores of all words at once: LMH and DAU."""

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
    """Settings of conditioners that read one vector."""

    published: ClassVar[Mapping[str, Any]] = {"start": "random", "trains": "new"}

    pooling: Pooling = "mean"
    """Mean ("avg" in the paper) or maximum of each coordinate over the auxiliary text's tokens."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``lmh:max``."""
        if not arguments:
            return {}
        if len(arguments) > 1 or arguments[0] not in ("mean", "max"):
            raise ValueError(f"must be followed by mean or max ({','.join(arguments)!r} given)")
        return {"pooling": arguments[0]}

    def arguments(self) -> list[str]:
        """The pooling where it is not the mean."""
        return [] if self.pooling == "mean" else [self.pooling]


def pooled(states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"], pooling: Pooling) -> Float[Tensor, "B E"]:
    """Mean or maximum over the tokens that are ``valid``; special tokens count, padding never does."""
    if pooling == "max":
        return states.masked_fill(~valid[..., None], -torch.inf).amax(1)
    return states.masked_fill(~valid[..., None], 0.0).sum(1) / valid.sum(1, keepdim=True)


class PooledConditioner(Conditioner, ABC):
    """Adds ``U p + b`` to the scores of all words, p being the pooled auxiliary text; computed once for each text."""

    def __init__(self, config: PooledConfig, dimensions: Dimensions, attention_heads: int) -> None:
        super().__init__(config, dimensions, attention_heads)
        self.project = OutputProjection(self.width, dimensions.vocab_size, config.start)

    def read(self, states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"]) -> dict[str, Tensor]:
        """``U p + b``."""
        return {"scores": self.project(pooled(states, valid, self.config.pooling))}

    def output_layer(self, vocabulary: Vocabulary, kept: Mapping[str, Tensor]) -> Vocabulary:
        """The scores of the states, shifted."""
        scores = kept["scores"]
        return Shifted(vocabulary, scores, torch.arange(len(scores), device=scores.device))

    def resized(self, vocab_size: int) -> None:
        """New tokens are not shifted."""
        self.project.resize(vocab_size)


# -- LMH: the pooled auxiliary text stands beside the decoder's last state, under an output layer of its own.


class LmHeadConfig(PooledConfig):
    """Settings of LMH."""

    conditioner: Literal["lmh"] = "lmh"

    @property
    def unties(self) -> bool:
        """Its output layer is new."""
        return True


@registry.register("lmh")
class LmHeadConditioner(PooledConditioner):
    """A newly trained output layer reads the decoder's state and the pooled auxiliary text together.

    Formula: with the pooled states p of the encoder and an output layer ``[W U]`` of width D + E::

        z = [W U] [h_t; p] + b = W h_t + (U p + b)

    The second form is the one computed: ``U p + b`` once for each auxiliary text, ``W h_t`` at every position. W is the
    backbone's output layer, untied from its input embedding, so that every head, LoRA and quantisation find it where it
    always is. What a model does to its scores afterwards (a cap, a scale) it does to ``W h_t``.

    Expresses: a bias of the whole text for each word that its auxiliary text calls for. Costs: V (D + E) parameters.

    Trained are W, U, b and the head; encoder and decoder are frozen. It starts with the backbone's W and with U = 0,
    which changes nothing. ``lmh:published`` discards the old layer: W and U begin at random.

    Source: He, Chen and Kim 2020, section 3.2 (BERT-GPT LMH).

    Examples:
        >>> from nextword.conditioning import parse_conditioner
        >>> parse_conditioner("lmh").pooling
        'mean'
    """

    Config = LmHeadConfig


# -- DAU: the pooled auxiliary text adds to the scores of the words that it calls for.


class DistributionAdjustmentConfig(PooledConfig):
    """Settings of DAU."""

    conditioner: Literal["dau"] = "dau"


@registry.register("dau")
class DistributionAdjustmentConditioner(PooledConditioner):
    """One feed-forward layer turns the pooled auxiliary text into V scores, which are added to the decoder's.

    Formula: with the pooled states p of the encoder, ``z = W h_t + (U p + b)``.

    Expresses: words of the topic are more probable throughout the text. What it adds depends on no position: it is
    LMH without a new W. Costs: V E parameters, one product for each auxiliary text.

    Trained are U, b and the head; encoder and decoder are frozen. It starts with U = 0, which changes nothing;
    ``dau:published`` with a small random U.

    Source: He, Chen and Kim 2020, section 3.3 (BERT-GPT DAU).

    Examples:
        >>> from nextword.conditioning import parse_conditioner
        >>> parse_conditioner("dau:max").trains
        'new'
    """

    Config = DistributionAdjustmentConfig
