"""Weights of a text memory's matches, after one pass over a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.heads.context import Context
from nextword.heads.parts.head_calibration import Calibration, Optimum
from nextword.retrieval.ngram.levels import Found
from nextword.retrieval.ngram.match_weights import fit_match_weights, head_alone
from nextword.retrieval.ngram.recall import TextMemory

Parts = Callable[[Context], tuple[NextToken, Found]]
"""What is mixed: a head's distribution, and what the corpus has at each position."""


class LevelCalibration(Calibration):
    """Chooses how much each level of a match counts; the shares are those of ``fit_match_weights``.

    Args:
        parts: What is mixed.
        memory: The corpus; its weights say no more than which levels there are.
    """

    def __init__(self, parts: Parts, memory: TextMemory) -> None:
        self._parts, self._memory = parts, memory
        self._log_head: list[Float[np.ndarray, "N"]] = []
        self._levels: list[Float[np.ndarray, "N J"]] = []
        self._found: list[Found] = []

    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """As in the contract."""
        base, found = self._parts(context)
        log_probs = base.log_prob(ids)
        for column in range(ids.shape[1]):
            self._log_head.append(log_probs[:, column].cpu().double().numpy())
            self._levels.append(found.probabilities(self._memory.index, ids[:, column].cpu().numpy()))
            self._found.append(found)
        return log_probs

    def optimum(self) -> Optimum:
        """As in the contract."""
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
