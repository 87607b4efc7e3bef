"""Scores: one softmax over dense scores, with sparse changes on few tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.functional.entries import Entries
from nextword.functional.logspace import at_least_float32, log_add_exp


@runtime_checkable
class Vocabulary(Protocol):
    """What turns states into a score for every token: an output embedding with all that belongs to it."""

    @property
    def size(self) -> int:
        """V."""
        ...

    def __call__(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """A score for every token."""
        ...


@dataclass(frozen=True)
class Edit(ABC):
    """A change of the scores of few tokens a position, made in place of nothing else.

    Args:
        source: Name under which ``sources`` reports the probability of the changed tokens.
        ids: Tokens to change. A token that occurs twice in a row must have the same value both times.
        values: New or added score of each.
        present: Which of them are changed at all.
    """

    source: str
    ids: Int[Tensor, "N K"]
    values: Float[Tensor, "N K"]
    present: Bool[Tensor, "N K"]

    def __getitem__(self, rows: slice | Int[Tensor, "M"]) -> Edit:
        """The change at some of the positions."""
        return replace(self, ids=self.ids[rows], values=self.values[rows], present=self.present[rows])

    def touched(self, vocab_size: int) -> Bool[Tensor, "N V"]:
        """Which tokens are changed."""
        rows, columns = self._where()
        touched = torch.zeros(len(self.ids), vocab_size, dtype=torch.bool, device=self.ids.device)
        return touched.index_put((rows, columns), torch.ones((), dtype=torch.bool, device=touched.device))

    @abstractmethod
    def apply(self, scores: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        """The changed scores."""

    def _where(self) -> tuple[Int[Tensor, "M"], Int[Tensor, "M"]]:
        rows, entries = self.present.nonzero(as_tuple=True)
        return rows, self.ids[rows, entries]


class Replace(Edit):
    """The score becomes the value (partitions, rerankers)."""

    def apply(self, scores: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        """The scores with the values in place of the old ones, which get no gradient."""
        return scores.index_put(self._where(), self.values[self.present].to(scores.dtype))


class Add(Edit):
    """The value is added to the score (pointers in add mode)."""

    def apply(self, scores: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        """The scores with the values added."""
        where = self._where()
        return scores.index_put(where, scores[where] + self.values[self.present].to(scores.dtype))


class Scores(NextToken):
    """Softmax of dense scores after sparse changes, normalised together with stored entries.

    With dense scores ``z = vocabulary(states)``, the edits applied to them in order, and entries ``e`` of log-mass
    ``s_j`` that hold token ``w_j``::

        P(w) = (exp z_w + sum_{j: w_j = w} exp s_j) / (sum_v exp z_v + sum_j exp s_j)

    Edits come before the normaliser is summed; subtracting old exponentials from a finished sum would cancel digits.

    Args:
        vocabulary: Turns states into dense scores, chunk by chunk.
        states: Input of the vocabulary at each position.
        nonlinearity: Applied to the dense scores before anything else (sigsoftmax).
        edits: Changes of single scores, the later over the earlier.
        stored: Entries whose mass is added (log-add-exp), by name: a cache, CopyNet's pointer.
        name: Name of the dense part in ``sources``.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        states: Float[Tensor, "N D"],
        *,
        nonlinearity: Callable[[Tensor], Tensor] | None = None,
        edits: Sequence[Edit] = (),
        stored: Mapping[str, Entries] | None = None,
        name: str = "softmax",
    ) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self.states = states
        self.device = states.device
        self.nonlinearity = nonlinearity
        self.edits = tuple(edits)
        self.stored = dict(stored or {})
        self.name = name

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows: slice | Int[Tensor, "M"]) -> Scores:
        return Scores(
            self.vocabulary,
            self.states[rows],
            nonlinearity=self.nonlinearity,
            edits=[edit[rows] for edit in self.edits],
            stored={name: entries[rows] for name, entries in self.stored.items()},
            name=self.name,
        )

    def dense(self) -> Float[Tensor, "N V"]:
        """Unnormalised scores after the edits, without the stored entries."""
        scores = at_least_float32(self.vocabulary(self.states))
        if self.nonlinearity is not None:
            scores = self.nonlinearity(scores)
        for edit in self.edits:
            scores = edit.apply(scores)
        return scores

    def _lowered(self) -> tuple[Tensor, dict[str, Entries], Tensor]:
        """Dense scores and entries relative to the largest of each row, and the log of their common normaliser.

        Relative to the peak, the normaliser is a small number; a difference of two large ones would lose digits.
        """
        scores = self.dense()
        peak = scores.detach().amax(-1)
        for entries in self.stored.values():
            peak = torch.maximum(peak, entries.peak().to(peak.dtype))
        scores = scores - peak[:, None]
        stored = {name: entries.lowered(peak) for name, entries in self.stored.items()}
        total = scores.logsumexp(-1)
        for entries in stored.values():
            total = torch.logaddexp(total, entries.log_mass().to(total.dtype))
        return scores, stored, total[:, None]

    def _log_probs(self) -> Float[Tensor, "N V"]:
        if not self.stored:
            return self.dense().log_softmax(-1)
        scores, stored, total = self._lowered()
        for entries in stored.values():
            scores = log_add_exp(scores, entries.scatter(self.vocab_size).to(scores.dtype))
        return scores - total

    def _log_prob(self, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        if not self.stored:
            return self.dense().log_softmax(-1).gather(1, ids)
        scores, stored, total = self._lowered()
        asked = scores.gather(1, ids)
        for entries in stored.values():
            asked = log_add_exp(asked, entries.log_mass_of(ids, self.vocab_size).to(scores.dtype))
        return asked - total

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        scores, stored, total = self._lowered()
        dense = scores.gather(1, ids) - total
        shares: dict[str, Tensor] = {}
        untaken = torch.ones_like(ids, dtype=torch.bool)
        for edit in reversed(self.edits):
            own = edit.touched(self.vocab_size).gather(1, ids) & untaken
            untaken = untaken & ~own
            share = dense.masked_fill(~own, -torch.inf)
            shares[edit.source] = log_add_exp(shares[edit.source], share) if edit.source in shares else share
        shares[self.name] = dense.masked_fill(~untaken, -torch.inf)
        for name, entries in stored.items():
            shares[name] = entries.log_mass_of(ids, self.vocab_size).to(total.dtype) - total
        return dict(reversed(shares.items()))
