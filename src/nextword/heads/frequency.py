"""F2-Softmax: predicts the frequency class of the next token, then the token within this class."""

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
"""Division if only the number of classes is given: classes of equal mass, as in MefMax."""

_STATES = 2048
"""Number of states for fitting the class embeddings to the softmax of a trained model."""

_INITIAL_SPREAD = 0.02
"""Standard deviation of randomly initialised class embeddings, as for GPT-2's weights."""


class FrequencyConfig(HeadConfig):
    """Settings of F2-Softmax."""

    published: ClassVar[Mapping[str, Any]] = {"prior": None}

    head: Literal["f2"] = "f2"
    counts: str | None = None
    """File of token counts from which classes are made (``nextword count``); read once, when the head is built."""
    division: Literal["mefmax", "eq-freq", "eq-token"] = "mefmax"
    """Division into classes. ``mefmax`` chooses their number. ``eq-freq`` and ``eq-token`` make as many as ``classes``
    says, with about equal sums of counts or with equally many tokens."""
    classes: int | None = Field(default=None, ge=1)
    """Number of classes K, for the divisions ``eq-freq`` and ``eq-token``."""
    start: Literal["softmax", "random"] = "softmax"
    """Initial class embeddings if ``prior`` is None. ``softmax``: fitted, so that each class has about the probability
    that its tokens have in the model's own softmax. ``random``: small random numbers."""
    prior: Literal["softmax"] | Fitted | None = FITTED
    """What is added to the class scores. ``softmax``: log of the probability of each class in one softmax over all
    tokens, which scores the whole vocabulary at each position; class embeddings begin at zero, so that the
    distribution is that softmax. ``fitted``: becomes ``softmax`` when the head is attached. None: nothing
    (published)."""
    mi: MultiInputConfig | None = None
    """Multiple input states; None: only the last state."""
    bias: bool = True
    """Whether the projection of multiple inputs has a bias."""
    decoupled: bool = True
    """Whether greedy search and sampling choose a class first; false: they use the full distribution."""
    class_top_k: int | None = Field(default=None, ge=1)
    """Number of most probable classes to sample from; None: all classes."""
    class_top_p: float | None = Field(default=None, gt=0, le=1)
    """Sample from the fewest classes that together have at least this probability; None: all classes."""
    boundaries: list[int] | None = None
    """Exclusive ends of the classes in the list of tokens by decreasing count; filled in when the head is built."""
    tokenizer: str | None = None
    """Fingerprint of the tokenizer used for counting; filled in when the head is built."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of ``f2:8`` (equal mass) or ``f2:8,eq-token``."""
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
        """Replaces a ``fitted`` prior by None: training then scores only classes and the tokens of targets' classes."""
        begun: FrequencyConfig = super().to_fine_tune()
        return begun.model_copy(update={"prior": None}) if self.prior == FITTED else begun

    def unbuilt(self) -> FrequencyConfig:
        """These settings without ``boundaries`` and ``tokenizer``, which belong to one vocabulary."""
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
    """The tokens of each class in order of decreasing count, and the counts; saved with the model."""

    counts: Tensor
    order: Tensor
    token_class: Tensor
    place: Tensor

    def __init__(self, counts: Int[np.ndarray, "V"], order: Int[np.ndarray, "V"], boundaries: list[int]) -> None:
        super().__init__()
        self.sizes = tuple(end - begin for begin, end in pairwise([0, *boundaries]))
        self._made_from = counts, order  # not buffers, which may lose their values (meta device, ``to_empty``)
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
        """Adds new tokens to the last class, or removes tokens beyond the new vocabulary size.

        Raises:
            ValueError: If a class would become empty.
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
    """Computes the scores of the classes from states, without bias."""

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        # terms of a fitted score nearly cancel; under autocast, a tenth of the product would be rounding error
        with torch.autocast(states.device.type, enabled=False):
            return super().forward(states.to(self.weight.dtype))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=_INITIAL_SPREAD)


@registry.register("f2")
class FrequencyHead(Head):
    """Predicts the frequency class of the next token, then the token within this class.

    Formula: ``P(w) = softmax_c(h_t . u_c) * softmax_{w in class c}(h_t . e_w)`` with c the class of w, ``u_c`` the
    learned class embedding and ``e_w`` the output embedding. Tokens are divided into K classes by their counts in a
    corpus. All classes have about the same sum of counts; tokens of one class have similar counts (MefMax,
    ``nextword.functional.frequency.classes``).

    Expresses: a rare token competes directly with rare tokens only; with frequent tokens it competes through its class.
    Costs: K D new parameters; training scores only the tokens of the targets' classes, on average about V / K.

    Greedy search and sampling choose a class by the first factor, then a token by the second (eq. 7). Without ``prior``
    this does not score the whole vocabulary. In speculative decoding, draft tokens are compared with the token that is
    chosen in this way. Beam search, and speculative decoding with an assistant model, use the full distribution; with
    ``decoupled=False``, greedy search and sampling use it too.

    On a pretrained model each class starts with the probability of its tokens in the model's own softmax (``prior``).
    The distribution is then the model's, and can be decoded by classes immediately. With ``f2:published`` and in
    training there is no ``prior``. The class embeddings are then fitted to these class probabilities (smallest mean KL
    divergence), on states of tokens sampled in proportion to their counts.

    Source: F2-Softmax, Choi et al. 2020, eq. 2 to 7 and algorithm 1.

    Differs from the paper: top-k, top-p and temperature act within the class, which the paper does not specify; the
    prior and the initialisation on trained models are ours.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("f2:8,eq-token").division
        'eq-token'
    """

    Config = FrequencyConfig
    adjustable: ClassVar[frozenset[str]] = frozenset({"decoupled", "class_top_k", "class_top_p"})
    generate_takes: ClassVar[tuple[str, ...]] = ("decoupled", "class_top_k", "class_top_p")

    def __init__(self, config: FrequencyConfig, dimensions: Dimensions) -> None:
        # for a saved head, only the ends of its classes are known; tokens are sorted by id until a checkpoint is loaded
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
        """Initialises the class embeddings: as ``start`` says if ``prior`` is None, otherwise to zero.

        A ``fitted`` prior then becomes ``softmax``.
        """
        if self.config.prior is not None:
            self.config = self.config.model_copy(update={"prior": "softmax"})
            self.classes.weight.zero_()
            return
        if self.config.start == "random":
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
                "class_top_k and class_top_p have no effect here; they need do_sample=True and decoupled=True"
            )
        return ClassDraw(sample, config.class_top_k, config.class_top_p) if config.decoupled else None

    def facts(self) -> dict[str, Any]:
        boundaries = self.config.boundaries
        return {"classes": len(boundaries), "division": self.config.division, "boundaries": boundaries}


def _divided(config: FrequencyConfig, vocab_size: int) -> tuple[Int[np.ndarray, "V"], FrequencyConfig]:
    """Counts for the whole vocabulary, and the settings with the classes made from these counts."""
    if config.counts is None:
        raise ValueError(
            "f2: classes are made from the token counts of a corpus; count them with 'nextword count' and attach "
            "{'head': 'f2', 'counts': 'counts.npz'}"
        )
    counted = TokenCounts.load(config.counts, "head.counts").padded(vocab_size, "head.counts")
    ends = divide(counted.counts, config.division, config.classes).boundaries
    # the path is not kept, because the counts are saved with the model and the file may be missing at the next load
    filled = {"boundaries": list(ends), "tokenizer": counted.tokenizer, "counts": None}
    return counted.counts, config.model_copy(update=filled)
