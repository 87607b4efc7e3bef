"""LMH: the pooled auxiliary text stands beside the decoder's last state, under an output layer of its own."""

from __future__ import annotations

from typing import Literal

from nextword.conditioning.conditioner import registry
from nextword.conditioning.pooling import PooledConditioner, PooledConfig


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
