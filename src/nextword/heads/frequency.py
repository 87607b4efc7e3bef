"""F2-Softmax: first the frequency class of the next token, then the token within it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from nextword.distribution import ClassDraw, FactorizedDistribution, TokenClasses
from nextword.functional.frequency import TokenCounts, divide
from nextword.functional.frequency.classes import by_frequency
from nextword.functional.probability import fitted_softmax
from nextword.heads.context import Context
from nextword.heads.head import FITTED, ContextOf, Draw, Fitted, Head, HeadConfig, registry
from nextword.heads.input_states import Dimensions, MultiInputConfig, Projection

logger = logging.getLogger(__name__)

_BY_HAND = "eq-freq"
"""Division where only the number of classes is given: by mass, as MefMax divides once it has chosen a number."""

_STATES = 2048
"""States on which class embeddings are fitted to the softmax of a trained model."""

_INITIAL_SPREAD = 0.02
"""Standard deviation of class embeddings that start at random, as that of GPT-2's weights."""


class FrequencyConfig(HeadConfig):
    """Settings of F2-Softmax."""

    published: ClassVar[Mapping[str, Any]] = {"prior": None}

    head: Literal["f2"] = "f2"
    counts: str | None = None
    """File of token counts that classes are made from (``nextword count``); read once, when the head is built."""
    division: Literal["mefmax", "eq-freq", "eq-token"] = "mefmax"
    """Division of the tokens: by MefMax, or into a given number of classes of equal mass or of equally many tokens."""
    classes: int | None = Field(default=None, ge=1)
    """K for a division that does not choose it."""
    start: Literal["softmax", "random"] = "softmax"
    """Class embeddings that give each class about the mass of its tokens in the model's own softmax, or random ones."""
    prior: Literal["softmax"] | Fitted | None = FITTED
    """Prior that class embeddings add to. ``softmax``: the log of the mass that each class has in one softmax over all
    tokens, so that embeddings of zero change nothing; it scores the whole vocabulary at each position. ``fitted`` is
    that when the head is attached. None: nothing (published)."""
    mi: MultiInputConfig | None = None
    """Multiple input states; None reads the last state alone."""
    bias: bool = True
    """Whether the projection of multiple inputs has a bias."""
    decoupled: bool = True
    """Whether greedy search and sampling choose a class first; otherwise they take the full posterior."""
    class_top_k: int | None = Field(default=None, ge=1)
    """Draw among that many most probable classes only; None: among all."""
    class_top_p: float | None = Field(default=None, gt=0, le=1)
    """Draw among the fewest classes that together have at least this probability; None: among all."""
    boundaries: list[int] | None = None
    """Exclusive ends of the classes among the tokens by falling count; filled in when the head is built."""
    tokenizer: str | None = None
    """Fingerprint of the tokenizer that was counted with; filled in when the head is built."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``f2:8`` (equal mass) or ``f2:8,eq-token``."""
        if not arguments:
            return {}
        if not arguments[0].isdecimal() or len(arguments) > 2:
            raise ValueError(f"must be followed by K or K,eq-token, such as f2:8 ({','.join(arguments)!r} given)")
        return {"classes": int(arguments[0]), "division": arguments[1] if len(arguments) == 2 else _BY_HAND}

    def arguments(self) -> list[str]:
        if self.classes is None:
            return []
        return [str(self.classes)] + ([self.division] if self.division != _BY_HAND else [])

    def to_fine_tune(self) -> FrequencyConfig:
        """Without the fitted prior: training scores all classes, but only the tokens of the targets' classes."""
        return self.model_copy(update={"prior": None}) if self.prior == FITTED else self

    def unbuilt(self) -> FrequencyConfig:
        """Without what belongs to one vocabulary."""
        return self.model_copy(update={"boundaries": None, "tokenizer": None})

    @model_validator(mode="before")
    @classmethod
    def _by_mass(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("classes") is not None and "division" not in given:
            return {**given, "division": _BY_HAND}
        return given

    @model_validator(mode="after")
    def _number_fits(self) -> FrequencyConfig:
        if self.tokenizer is not None and self.boundaries is None:
            raise ValueError("tokenizer: leave it out; it is filled in from the counts file")
        if (self.division == "mefmax") != (self.classes is None):
            itself = "chooses the number of classes itself; with a number take 'eq-freq'"
            said = itself if self.classes else "needs a number of classes, as in f2:8"
            raise ValueError(f"division '{self.division}' {said}")
        return self


class ClassTable(nn.Module):
    """Which tokens each class holds, by falling count, with the counts it was made from; saved with the model."""

    counts: Tensor
    order: Tensor
    token_class: Tensor
    place: Tensor

    def __init__(self, counts: Int[np.ndarray, "V"], order: Int[np.ndarray, "V"], boundaries: list[int]) -> None:
        super().__init__()
        self.sizes = tuple(end - begin for begin, end in pairwise([0, *boundaries]))
        self._made_from = counts, order  # no buffers: still there where those lose their numbers (meta, ``to_empty``)
        for name in ("counts", "order", "token_class", "place"):
            self.register_buffer(name, torch.zeros(len(counts), dtype=torch.long))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        counts, order = map(torch.from_numpy, self._made_from)
        classes = TokenClasses.ordered(order, self.sizes)
        self.counts.copy_(counts)
        self.order.copy_(order)
        self.token_class.copy_(classes.token_class)
        self.place.copy_(classes.place)

    @property
    def boundaries(self) -> list[int]:
        return list(accumulate(self.sizes))

    def resize(self, vocab_size: int) -> None:
        """New tokens, never counted, go to the last class; tokens beyond the new end leave theirs.

        Raises:
            ValueError: A class would be left empty.
        """
        before = len(self.order)
        kept = self.order[self.order < vocab_size]
        sizes = torch.bincount(self.token_class[kept], minlength=len(self.sizes)).tolist()
        sizes[-1] += max(0, vocab_size - before)
        if 0 in sizes:
            raise ValueError(
                f"f2: with {vocab_size} of {before} tokens class {sizes.index(0) + 1} would be empty; attach the head "
                "again, with counts for the new vocabulary"
            )
        new = torch.arange(before, max(before, vocab_size), device=kept.device)
        counts = torch.cat([self.counts[:vocab_size], torch.zeros_like(new)])
        order = torch.cat([kept, new])
        resized = ClassTable(counts.cpu().numpy(), order.cpu().numpy(), list(accumulate(sizes))).to(kept.device)
        self.sizes, self._made_from = resized.sizes, resized._made_from
        for name, buffer in resized.named_buffers():
            setattr(self, name, buffer)

    def classes(self) -> TokenClasses:
        return TokenClasses(self.order, self.sizes, self.token_class, self.place)


class ClassEmbedding(nn.Linear):
    """Scores of the classes, without bias."""

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        # terms of a fitted score nearly cancel: of products under autocast a tenth would be rounding
        with torch.autocast(states.device.type, enabled=False):
            return super().forward(states.to(self.weight.dtype))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=_INITIAL_SPREAD)


@registry.register("f2")
class FrequencyHead(Head):
    """First the frequency class of the next token, then the token among those of the class.

    Formula: ``P(w) = softmax_c(h_t . u_c) * softmax_{w in class c}(h_t . e_w)`` with c the class of w. Tokens are
    divided into K classes by their counts in a corpus, so that classes have about the same mass and the tokens of one
    class about the same frequency (MefMax, ``nextword.functional.frequency.classes``).

    Expresses: a rare token competes with rare tokens only, and with the frequent ones through its class. Costs: K D
    new parameters; training scores the tokens of the targets' classes only, about V / K a position.

    ``generate`` decodes decoupled (eq. 7): a class from p1, then a token from p2, which need not score the whole
    vocabulary either. ``decoupled=False`` takes the full posterior instead, as beam search and everything else does.

    Attached to a pretrained model, the classes have the mass of their tokens under the model's own softmax (``prior``),
    so the distribution is the model's and can be decoded by classes at once. ``f2:published``, as in training, has
    class embeddings alone. On a trained model they start where each class has about that mass: they minimise the
    divergence between the two on states of token sequences drawn by the counts.

    Source: F2-Softmax, Choi et al. 2020, eq. 2 to 7 and algorithm 1.

    Differs from the paper: top-k, top-p and temperature act within the class, which the paper leaves open; the start
    on trained models and the prior are ours.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("f2:8,eq-token").division
        'eq-token'
    """

    Config = FrequencyConfig
    adjustable: ClassVar[frozenset[str]] = frozenset({"decoupled", "class_top_k", "class_top_p"})
    generate_takes: ClassVar[tuple[str, ...]] = ("decoupled", "class_top_k", "class_top_p")

    def __init__(self, config: FrequencyConfig, dimensions: Dimensions) -> None:
        # of a saved head only the ends of its classes are known here: until a checkpoint fills the table, ids in order
        counts, order = np.zeros(dimensions.vocab_size, np.int64), np.arange(dimensions.vocab_size)
        if config.boundaries is None:
            counts, config = _divided(config, dimensions.vocab_size)
            order = by_frequency(counts)
        super().__init__(config, dimensions)
        assert config.boundaries is not None
        self.table = ClassTable(counts, order, config.boundaries)
        self.project = (
            nn.Identity() if config.mi is None else Projection(self.inputs.width, dimensions.hidden, bias=config.bias)
        )
        self.classes = ClassEmbedding(dimensions.hidden, len(config.boundaries), bias=False)

    def forward(self, context: Context, mode: str | None = None) -> FactorizedDistribution:
        states = self.project(context.inputs)
        factorized = FactorizedDistribution(context.vocabulary, states, self.classes(states), self.table.classes())
        if self.config.prior != "softmax":
            return factorized
        return factorized.over_prior(factorized.log_softmax_class_mass())

    @torch.no_grad()
    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Class embeddings of zero over the softmax; without that prior near the mass of their tokens, or random."""
        if self.config.prior == FITTED:
            self.config = self.config.model_copy(update={"prior": "softmax"})
            self.classes.weight.zero_()
        if self.config.prior == "softmax" or self.config.start == "random":
            return
        frequencies = self.table.counts.double().cpu()
        drawn = torch.multinomial(frequencies, _STATES, replacement=True, generator=torch.Generator().manual_seed(0))
        seen = self(context_of(drawn))
        self.classes.weight.copy_(fitted_softmax(seen.states, seen.log_softmax_class_mass()))

    def resized(self, vocab_size: int) -> None:
        self.table.resize(vocab_size)
        self.config = self.config.model_copy(update={"boundaries": self.table.boundaries})

    def draw(self, config: FrequencyConfig, *, sample: bool) -> Draw | None:
        if (config.class_top_k or config.class_top_p) and not (sample and config.decoupled):
            logger.warning(
                "class_top_k and class_top_p have no effect here: a class is drawn with do_sample=True, decoupled=True"
            )
        return ClassDraw(sample, config.class_top_k, config.class_top_p) if config.decoupled else None

    def facts(self) -> dict[str, Any]:
        boundaries = self.config.boundaries
        return {"classes": len(boundaries), "division": self.config.division, "boundaries": boundaries}


def _divided(config: FrequencyConfig, vocab_size: int) -> tuple[Int[np.ndarray, "V"], FrequencyConfig]:
    """Counts for the whole vocabulary, and the settings with the classes made from them."""
    if config.counts is None:
        raise ValueError(
            "f2: classes are made from the token counts of a corpus; count them with 'nextword count' and attach "
            "{'head': 'f2', 'counts': 'counts.npz'}"
        )
    counted = TokenCounts.load(config.counts, "head.counts").padded(vocab_size, "head.counts")
    ends = divide(counted.counts, config.division, config.classes).boundaries
    # the file may be gone when the model is loaded again, and nothing of it is needed then
    filled = {"boundaries": list(ends), "tokenizer": counted.tokenizer, "counts": None}
    return counted.counts, config.model_copy(update=filled)
