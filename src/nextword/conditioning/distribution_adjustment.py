"""DAU: the pooled auxiliary text adds to the scores of the words that it calls for."""

from __future__ import annotations

from typing import Literal

from nextword.conditioning.conditioner import registry
from nextword.conditioning.pooling import PooledConditioner, PooledConfig


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
