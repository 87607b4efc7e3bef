"""Factorized: first a class, then a token of that class."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.entries import Entries
from nextword.functional.logspace import at_least_float32


class Factorized(NextToken):
    """``P(w) = P(class of w) * softmax over the tokens of that class`` (F2-Softmax, eq. 2).

    Args:
        vocabulary: Turns states into a score for every token; only differences within a class matter.
        states: Input of the vocabulary at each position.
        class_scores: Unnormalised scores of the C classes.
        token_class: Class of every token, 0 to C - 1; every class has at least one token.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        states: Float[Tensor, "N D"],
        class_scores: Float[Tensor, "N C"],
        token_class: Int[Tensor, "V"],
    ) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self.states = states
        self.device = states.device
        self.class_scores = class_scores
        self.token_class = token_class

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows: slice | Int[Tensor, "M"]) -> Factorized:
        return Factorized(self.vocabulary, self.states[rows], self.class_scores[rows], self.token_class)

    def _log_probs(self) -> Float[Tensor, "N V"]:
        scores = at_least_float32(self.vocabulary(self.states))
        rows = torch.arange(1, device=scores.device).expand(len(scores))
        tokens = Entries(self.token_class[None], rows, scores, torch.ones_like(scores, dtype=torch.bool))
        class_mass = tokens.scatter(self.class_scores.shape[-1])
        log_class = at_least_float32(self.class_scores).log_softmax(-1)
        return scores + (log_class - class_mass)[:, self.token_class]

    def _log_prob(self, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        return self._log_probs().gather(1, ids)

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        asked, classes = self._log_prob(ids), self.token_class[ids]
        count = self.class_scores.shape[-1]
        return {f"class {c + 1}": asked.masked_fill(classes != c, -torch.inf) for c in range(count)}
