"""n-gram head: mixes any head with the tokens that followed the text's last tokens in an indexed corpus."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from nextword.distribution import NextToken
from nextword.functional.probability import at_least_float32
from nextword.heads.calibration import Calibration, Optimum
from nextword.heads.context import Context
from nextword.heads.head import ContextOf, Head, StoredTexts, registry
from nextword.heads.input_states import Dimensions
from nextword.heads.safe_start import MOST
from nextword.heads.wrapper_head import WrapperHead, WrapperHeadConfig
from nextword.retrieval.ngram.levels import (
    EVIDENCE,
    LENGTHS,
    LIMIT,
    Found,
    MatchWeights,
    fit_match_weights,
    head_alone,
    shares_at,
)
from nextword.retrieval.ngram.ngram_index import LastTokens, NgramIndex
from nextword.retrieval.ngram.ngram_model import SOURCE, NgramModel, mixture_at
from nextword.settings.old_modules import old_names


class NgramConfig(WrapperHeadConfig):
    """Settings of the n-gram head; ``index`` and ``shares`` can be changed on a built model."""

    folder: ClassVar[str | None] = "index"
    head: Literal["ngram"] = "ngram"
    index: str | None = None
    """Folder written by ``nextword ngram build``; None: the head below predicts alone."""
    weights: str | None = None
    """File with fitted shares, written by ``nextword ngram fit``; read once, when the head is built."""
    mix: Literal["fixed", "learned"] = "fixed"
    """Whether the shares of the mixture are fixed (``nw.calibrate`` chooses them) or learned in training."""
    evidence: list[int] = Field(default=list(EVIDENCE))
    """For each level (see ``NgramHead``), the minimum number of occurrences of its match in the corpus."""
    limit: int = Field(default=LIMIT, ge=1, le=1_000_000)
    """Maximum number of occurrences of a match in the corpus. More frequent matches are not used."""
    lengths: list[int] = Field(default=list(LENGTHS))
    """Longest matches are grouped by length: shortest length, in tokens, in each group. A group has its own shares."""
    shares: list[list[float]] | None = None
    """For each group, the share of the head below, then the share of each level. Filled in from ``weights`` or by
    ``nw.calibrate``. None: all levels together have 0.03, which costs at most 0.031 nats per token. Learned shares
    start from these values."""
    corpus: str | None = None
    """Fingerprint of the indexed corpus, filled in when the head is attached; an index of another corpus is
    rejected."""

    def unbuilt(self) -> NgramConfig:
        """These settings without ``shares`` and ``corpus``, which belong to one model and corpus."""
        return super().unbuilt().model_copy(update={"shares": None, "corpus": None})  # type: ignore[return-value]

    def with_weights(self, weights: MatchWeights) -> NgramConfig:
        """These settings with the shares, levels and groups of ``weights``."""
        levels = {"evidence": list(weights.evidence), "limit": weights.limit, "lengths": list(weights.lengths)}
        return self.model_copy(update={**levels, "shares": weights.shares, "weights": None})

    def match_weights(self) -> MatchWeights:
        """The shares of every group and level; raises ValueError if a setting is invalid."""
        few = [1 - MOST, *[MOST / len(self.evidence)] * len(self.evidence)]
        return MatchWeights(
            evidence=tuple(self.evidence),
            limit=self.limit,
            lengths=tuple(self.lengths),
            shares=self.shares or [few] * len(self.lengths),
        )


@registry.register("ngram")
class NgramHead(WrapperHead):
    """The distribution of any head, mixed with the tokens that followed the text's last tokens in a corpus.

    Formula: ``s_0`` is the share of the wrapped head (the head below), whose distribution is ``P_below``, and ``s_j``
    the share of level j. The match of level j occurs ``c_j`` times in the corpus, ``c_j(w)`` times before the token w::

        P(w) = s_0 P_below(w) + sum_j s_j c_j(w) / c_j

    The match of the first level is the longest sequence of the text's last tokens that occurs in the corpus (the
    longest match). By default, the matches of the other levels are the longest that occur at least 4, 16 and 64 times.
    The shares depend on the length of the longest match.

    Expresses: copies of passages of a corpus, without states or gradients of the corpus. Costs: one binary search in
    the corpus per position, on the CPU; no parameters, or with ``mix=learned`` 55 (by default).

    Source: Liu et al. 2024 (infini-gram), who mix in only the longest match.

    Raises:
        ValueError: When the index is opened, if the model is an encoder-decoder model or has a smaller vocabulary than
            the index, or if the index does not exist or was built with another tokenizer or corpus.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("ngram:below=mos,index=memory").index
        'memory'
    """

    Config = NgramConfig
    adjustable: ClassVar[frozenset[str]] = frozenset({"index", "shares"})
    label = SOURCE
    opened_by = ("index",)

    def __init__(self, config: NgramConfig, dimensions: Dimensions, below: Head | None = None) -> None:
        if config.weights is not None:
            if config.index is None:
                raise ValueError("weights: needs the index that they were fitted with; name it (index=FOLDER)")
            config = config.with_weights(NgramModel.open(config.index, config.weights).weights)
        super().__init__(config, dimensions, below)
        self.modes = tuple(dict.fromkeys((*self.below.modes, "below")))  # type: ignore[misc]
        self._weighed = config, config.match_weights()
        self.mixing = LevelShares(self._weighed[1].shares) if config.mix == "learned" else None

    @property
    def reads_past(self) -> bool:  # type: ignore[override]
        """Whether an index is set."""
        return self.config.index is not None

    def with_settings(self, changes: Mapping[str, Any]) -> Any:
        changed = super().with_settings(changes)
        changed.match_weights()
        return changed

    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Initialises the head below, and stores the fingerprint of the corpus."""
        super().init_from_backbone(context_of)
        index = self.store()
        if index is not None:
            self.config = self.config.model_copy(update={"corpus": index.fingerprint()})

    def _open(self) -> NgramIndex:
        if self.dimensions.is_encoder_decoder:
            raise ValueError(
                "n-gram index: must be used with a decoder-only model (an encoder-decoder model given); choose another"
            )
        try:
            index = NgramIndex(self.config.index)
        except ValueError as fault:
            raise ValueError(f"index: {fault}. Was it moved? config.json names it, under 'head'") from None
        index.manifest.expect_vocabulary(self.dimensions.vocab_size, index.folder)
        if self.config.corpus not in (None, index.fingerprint()):
            raise ValueError(
                f"index: must hold the corpus that the head was attached with ('{index.folder}' holds another); build "
                "the index of that corpus again, or attach ngram with the new one"
            )
        return index

    @property
    def memory(self) -> NgramModel:
        """The n-gram index, with the shares in the head's settings."""
        if self._weighed[0] is not self.config:
            self._weighed = self.config, self.config.match_weights()
        return NgramModel(self.store(), self._weighed[1])

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        below: NextToken = self.below(context, mode=None if mode == "below" else mode)
        if mode == "below" or self.config.index is None:
            return below
        memory, found = self.memory, self.found(context)
        shares = torch.from_numpy(memory.weights.at(found))
        if self.mixing is not None:
            shares = shares_at(found, self.mixing(), memory.weights.lengths)
        dtype = at_least_float32(context.states[:0]).dtype
        return mixture_at(below, memory.index, found, shares, dtype, self.component)

    def found(self, context: Context) -> Found:
        """The matches, in the corpus, of the last tokens at each position of ``context``."""
        past = context.memory
        assert past is not None
        begins = past.begins()[context.row, context.position]
        ids, valid, row, position, first = (
            one.cpu().numpy() for one in (past.ids, past.valid, context.row, context.position, begins)
        )
        return self.memory.find(LastTokens(ids, valid, row, position, first))

    def calibration(self) -> Calibration | None:
        """Calibrates the shares; None without an index, or if the shares are learned."""
        if self.config.index is None or self.mixing is not None:
            return None
        return LevelCalibration(self)

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        index = self.store()
        return self.below.stored_texts() if index is None else {**self.below.stored_texts(), self.component: index}

    def facts(self) -> dict[str, Any]:
        index = self.store()
        if index is None:
            return self.below.facts()
        manifest = index.manifest
        return self.below.facts() | {"text_memory": ", ".join(manifest.data), "text_memory_tokens": manifest.tokens}


class LevelShares(nn.Module):
    """Learned shares, one row per group of match lengths, initialised with ``shares``."""

    def __init__(self, shares: list[list[float]]) -> None:
        super().__init__()
        self._begin = shares  # kept, because a parameter may lose its values (meta device, ``to_empty``)
        self.logits = nn.Parameter(torch.empty(len(shares), len(shares[0])))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Sets the initial shares, at least a millionth each, because a share of 0 would have no gradient."""
        self.logits.copy_(torch.tensor(self._begin).clamp_min(1e-6).log())

    def forward(self) -> Float[Tensor, "G C"]:
        """The shares in double precision; each row sums to one."""
        return self.logits.cpu().double().softmax(-1)


@contextlib.contextmanager
def with_ngrams(model: Any, memory: NgramModel) -> Iterator[Any]:
    """Mixes a model with an n-gram index inside the ``with`` block, for scoring or generation.

    ``model`` itself is changed, and has its own head again after the block. To keep the index, attach ``ngram``.

    Args:
        model: A model with a head, from ``nextword.attach`` or ``nextword.load``.
        memory: The indexed corpus and its shares.

    Raises:
        ValueError: If the model has a smaller vocabulary than the index, or its backbone does not keep tokens between
            steps.

    Examples:
        >>> with with_ngrams(model, NgramModel.open("memory", "weights.json", tokenizer)):  # doctest: +SKIP
        ...     nw.score(model, tokenizer, ["The king sat."])
    """
    below = model.next_word_head
    config = NgramConfig(index=str(memory.index.folder)).with_weights(memory.weights)
    head = NgramHead(config, below.dimensions, below).train(below.training)
    head.expect_tokenizer = below.expect_tokenizer  # type: ignore[method-assign]  # that of the corpus is trusted
    head.store()
    model.next_word_head, model.config.head = head, head.config.model_dump()
    try:
        model._refuse_head_cache_without_kv_cache()
        yield model
    finally:
        model.next_word_head, model.config.head = below, below.config.model_dump()


# -- Fitting the shares of the levels in one pass over a text.


class LevelCalibration(Calibration):
    """Fits the shares of the head below and of each level with ``fit_match_weights``."""

    def __init__(self, head: NgramHead) -> None:
        self._head, self._memory = head, head.memory  # only the levels of its weights are used
        self._log_head: list[Float[np.ndarray, "N"]] = []
        self._levels: list[Float[np.ndarray, "N J"]] = []
        self._found: list[Found] = []

    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        found = self._head.found(context)
        log_probs: Tensor = self._head.below(context).log_prob(ids)
        for column in range(ids.shape[1]):
            self._log_head.append(log_probs[:, column].cpu().double().numpy())
            self._levels.append(found.probabilities(self._memory.index, ids[:, column].cpu().numpy()))
            self._found.append(found)
        return log_probs

    def optimum(self) -> Optimum:
        if not self._log_head:
            raise ValueError("texts: must have at least one token (none given); give some text")
        alone, levels, found = np.concatenate(self._log_head), np.concatenate(self._levels), Found.joined(self._found)
        old = self._memory.weights
        fitted = fit_match_weights(alone, levels, found, evidence=old.evidence, limit=old.limit, lengths=old.lengths)
        shares = fitted.at(found)
        with np.errstate(divide="ignore"):
            log_probs = np.logaddexp(alone + np.log(shares[:, 0]), np.log((shares[:, 1:] * levels).sum(1)))
        settings, silent = ({"shares": one} for one in (fitted.shares, head_alone(old.evidence, old.lengths)))
        return Optimum(settings, log_probs, alone, silent, [(settings, -float(log_probs.mean()))])


__getattr__ = old_names(__name__)
