"""Sigsoftmax: a softmax whose scores are bent by a sigmoid."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from nextword.context import Context
from nextword.distribution import NextToken, Scores
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.input_states import MultiInputConfig, Projection


class SigsoftmaxConfig(HeadConfig):
    """Settings of the sigsoftmax head."""

    head: Literal["sigsoftmax"] = "sigsoftmax"
    mi: MultiInputConfig | None = None
    """Multiple input states; None reads the last state alone."""
    bias: bool = True
    """Whether the projection has a bias."""


@registry.register("sigsoftmax")
class SigsoftmaxHead(Head):
    """Softmax of scores bent by a sigmoid, over a learned projection of the states.

    Formula: ``P(w)`` proportional to ``exp(z_w) sigmoid(z_w)`` with ``z_w = (S q_t + b) . e_w``; in log space
    ``z + logsigmoid(z)``.

    Expresses: the bend is not linear in ``z``, so the rank of the log-probability matrix is not bounded by D + 1.
    Costs: one pass over V more than softmax, and the D x D projection.

    Unlike softmax it depends on the level of the scores, not on their differences alone, so attaching it to a
    pretrained model changes the model's distribution.

    Source: Kanai et al. 2018, as an option in Softmax-CPR.

    Differs from the published code: no 1e-20 is added to the sigmoid.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("sigsoftmax+mi:1x3").mi.layers
        1
    """

    Config = SigsoftmaxConfig

    def __init__(self, config: SigsoftmaxConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.project = Projection(self.inputs.width, dimensions.hidden, bias=config.bias)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """One softmax of bent scores."""
        projected = self.project(context.inputs)
        return Scores(context.vocabulary, projected, nonlinearity=sigmoid_bend, name="sigsoftmax")


def sigmoid_bend(scores: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
    """``log(exp(z) sigmoid(z))``."""
    return scores + F.logsigmoid(scores)
