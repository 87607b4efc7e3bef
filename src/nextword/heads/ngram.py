"""A head that asks a stored corpus too, whatever the head below it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.distribution import NextToken
from nextword.functional.probability import at_least_float32
from nextword.heads.calibration import Calibration, Optimum
from nextword.heads.context import Context
from nextword.heads.head import Head, StoredTexts
from nextword.heads.wrapper_head import DelegatingHead
from nextword.retrieval.ngram.levels import Found, fit_match_weights, head_alone
from nextword.retrieval.ngram.ngram_index import LastTokens
from nextword.retrieval.ngram.ngram_model import SOURCE, NgramModel, mixed_with_ngrams
from nextword.settings.old_modules import old_names


class NgramHead(DelegatingHead):
    """The distribution of a head, mixed with what came after the same last tokens in a corpus.

    Formula: ``P(w) = s_0 P_head(w) + sum_j s_j c_j(w) / c_j``, where ``c_j(w)`` counts how often ``w`` comes after the
    match of level ``j`` in the corpus, and the shares ``s`` are those of the length of the longest match.

    Expresses: what stands in a corpus, word for word; no states and no gradient of the corpus are needed. Costs: a
    bisection of the corpus for each position, on the CPU. It adds no parameter, and all else is as the head below.

    Raises:
        ValueError: The model has fewer tokens than may be stored, or is an encoder-decoder model.
    """

    reads_past = True

    def __init__(self, below: Head, memory: NgramModel) -> None:
        if below.dimensions.is_encoder_decoder:
            raise ValueError(
                "n-gram index: must be asked by a decoder-only model (an encoder-decoder model given); take another"
            )
        nn.Module.__init__(self)  # what a head makes of its settings the one below has made
        memory.index.manifest.expect_vocabulary(below.dimensions.vocab_size, memory.index.folder)
        self.below = below
        self.memory = memory
        self.modes, self.adjustable = below.modes, below.adjustable  # type: ignore[misc]
        self.generate_takes = below.generate_takes  # type: ignore[misc]
        self.dimensions = below.dimensions

    @property
    def config(self) -> Any:
        """Those of the head below."""
        return self.below.config

    @config.setter
    def config(self, config: Any) -> None:
        self.below.config = config

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        dtype = at_least_float32(context.states[:0]).dtype
        return mixed_with_ngrams(self.below(context, mode=mode), self.memory, self._found(context), dtype)

    def _found(self, context: Context) -> Found:
        assert context.memory is not None
        past = (context.memory.ids, context.memory.valid, context.row, context.position)
        return self.memory.find(LastTokens(*(tensor.cpu().numpy() for tensor in past)))

    def calibration(self) -> Calibration:
        return LevelCalibration(lambda context: (self.below(context), self._found(context)), self.memory)

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        return {**self.below.stored_texts(), SOURCE: self.memory.index}

    def facts(self) -> dict[str, Any]:
        manifest = self.memory.index.manifest
        return self.below.facts() | {"text_memory": ", ".join(manifest.data), "text_memory_tokens": manifest.tokens}


@contextlib.contextmanager
def with_ngrams(model: Any, memory: NgramModel) -> Iterator[Any]:
    """A model that asks a corpus too inside the ``with`` block: to score, to write, to be checked.

    The model is the same object, and has its own head again afterwards. What is saved inside the block would not load.

    Args:
        model: Of ours, from ``nextword.attach`` or ``nextword.load``.
        memory: The corpus and its weights.

    Raises:
        ValueError: The model has fewer tokens than may be stored, or a backbone that keeps no tokens between steps.

    Examples:
        >>> with with_ngrams(model, NgramModel.open("memory", "weights.json", tokenizer)):  # doctest: +SKIP
        ...     nw.score(model, tokenizer, ["The king sat."])
    """
    below = model.next_word_head
    model.next_word_head = NgramHead(below, memory)
    try:
        model._refuse_head_cache_without_kv_cache()
        yield model
    finally:
        model.next_word_head = below


# -- Weights of an n-gram index's matches, after one pass over a text.

Parts = Callable[[Context], tuple[NextToken, Found]]
"""What is mixed: a head's distribution, and what the corpus has at each position."""


class LevelCalibration(Calibration):
    """Chooses how much each level of a match counts; the shares are those of ``fit_match_weights``."""

    def __init__(self, parts: Parts, memory: NgramModel) -> None:
        self._parts, self._memory = parts, memory  # its weights say no more than which levels there are
        self._log_head: list[Float[np.ndarray, "N"]] = []
        self._levels: list[Float[np.ndarray, "N J"]] = []
        self._found: list[Found] = []

    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        base, found = self._parts(context)
        log_probs = base.log_prob(ids)
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

    def apply(self, model: Any, settings: Mapping[str, Any]) -> None:
        """The head gets a memory with these shares."""
        weights = self._memory.weights.model_copy(update={"shares": settings["shares"]})
        model.next_word_head.memory = replace(self._memory, weights=weights)


__getattr__ = old_names(__name__)
