"""Sigsoftmax: a softmax with a sigmoid factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from nextword.distribution import NextToken, SoftmaxDistribution
from nextword.heads.context import Context
from nextword.heads.head import FITTED, ContextOf, Fitted, Head, HeadConfig, registry
from nextword.heads.input_states import Dimensions, MultiInputConfig, Projection
from nextword.heads.safe_start import probe_tokens

_STRAIGHT = 10.0
"""Score from which on its sigmoid is 1 to four digits."""

_ROWS = 32
"""Number of positions whose scores are computed together."""


class SigsoftmaxConfig(HeadConfig):
    """Settings of the sigsoftmax head."""

    published: ClassVar[Mapping[str, Any]] = {"shift": 0.0}

    head: Literal["sigsoftmax"] = "sigsoftmax"
    shift: Annotated[float, Field(allow_inf_nan=False)] | Fitted = FITTED
    """Constant added to the scores inside the sigmoid. ``fitted``: large enough that the sigmoid is nearly 1 for all
    scores that the model has for random tokens when the head is attached. Published: 0."""
    mi: MultiInputConfig | None = None
    """Multiple input states; None: only the last state."""
    bias: bool = True
    """Whether the projection has a bias."""

    def to_fine_tune(self) -> Any:
        """Replaces a ``fitted`` shift by 0, because with the fitted shift, the sigmoid has almost no gradient."""
        return super().to_fine_tune().as_published()


@registry.register("sigsoftmax")
class SigsoftmaxHead(Head):
    """Softmax with a sigmoid factor, over a learned projection of the states.

    Formula: ``P(w)`` proportional to ``exp(z_w) sigmoid(z_w + shift)`` with ``z_w = (S q_t + b) . e_w``; in log space
    ``z + logsigmoid(z + shift)``. ``q_t`` is ``h_t``, or a wider vector with ``+mi``, and ``e_w`` the output
    embedding of w.

    Expresses: ``logsigmoid`` is not linear in ``z``, so the rank of the log-probability matrix is not bounded by D + 1.
    Costs: one more pass over the V scores than softmax, and the D x D projection.

    A softmax depends only on differences of scores, but this head depends on the scores themselves. So
    ``sigsoftmax:published`` (shift 0, also used in training) changes the predictions of a pretrained model; the fitted
    shift hardly does.

    Source: Kanai et al. 2018, as an option in Softmax-CPR.

    Differs from the published code: we do not add 1e-20 to the sigmoid, and the shift is our addition.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("sigsoftmax+mi:1x3").mi.layers
        1
    """

    Config = SigsoftmaxConfig

    def __init__(self, config: SigsoftmaxConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.project = Projection(self.inputs.width, dimensions.hidden, bias=config.bias)

    @torch.no_grad()
    def init_from_backbone(self, context_of: ContextOf) -> None:
        """If ``shift`` is ``fitted``, sets it from the model's scores for random tokens."""
        if self.config.shift != FITTED:
            return
        context = context_of(probe_tokens(self.dimensions.vocab_size))
        projected = self.project(context.inputs)
        lowest, highest = math.inf, -math.inf
        for start in range(0, len(projected), _ROWS):
            rows = itemgetter(slice(start, start + _ROWS))
            # a conditioner may change the scores of each row, so the same rows are taken of vocabulary and states
            scores = context.vocabulary.map(rows)(rows(projected))
            low, high = scores[scores.isfinite()].aminmax()
            lowest, highest = min(lowest, low.item()), max(highest, high.item())
        # the range is added once more, because other texts may have lower scores
        shift = float(f"{_STRAIGHT - lowest + (highest - lowest):.3g}")
        self.config = self.config.model_copy(update={"shift": shift})

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        projected = self.project(context.inputs)
        bend = partial(sigmoid_bend, shift=self.config.as_published().shift)
        return SoftmaxDistribution(context.vocabulary, projected, nonlinearity=bend, name="sigsoftmax")


def sigmoid_bend(scores: Float[Tensor, "N V"], shift: float = 0.0) -> Float[Tensor, "N V"]:
    """Computes ``log(exp(z) sigmoid(z + shift))``."""
    return scores + F.logsigmoid(scores + shift if shift else scores)
