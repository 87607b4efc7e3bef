"""Stored tokens with scores, called entries, as in a cache, a pointer or a partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.inplace import overwrite_
from nextword.functional.probability import log_add_exp, masked_logsumexp

_FEW_IDS = 8
"""Up to this many ids per position, comparing the ids with the stored ids is cheaper than scattering entries over V."""

_SHARE_LOOKED_UP = 0.25
"""Ratio of entries to vocabulary size above which sorting the entries costs more than a pass over the vocabulary."""

TextRead = Literal["text", "source", "store"]
"""Text that positions belong to: the decoder's own sequence (``text``), the source, or a datastore (``store``)."""


@runtime_checkable
class Stored(Protocol):
    """Entries for N positions, whose scores are either computed already or computed on demand."""

    @property
    def text(self) -> TextRead:
        """The text that the tokens belong to."""

    @property
    def visible(self) -> Bool[Tensor, "N S"]:
        """The entries that each position may see."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Stored:
        """The same entries with ``change`` applied to every tensor that has one row per position."""

    def shared(self) -> Sequence[Tensor]:
        """Tensors that may need a gradient and are the same for all positions."""

    def scored(self) -> CopyScores:
        """The entries with computed scores."""


@dataclass(frozen=True)
class CopyScores:
    """S entries (stored tokens) for each of B sequences, and their scores at N positions. Tokens may repeat.

    Args:
        ids: Token of each entry of each sequence. An id outside the vocabulary is not a token; its entry counts only in
            ``log_mass``.
        row: Index in ``ids`` of each position's sequence.
        scores: Log of the unnormalised mass of each entry at each position.
        visible: True for entries that a position may see; all others are ignored.
        first_position: Position, in the sequence or the source, of the first entry's token; the other entries follow
            it.
        stored: True for entries with a token, visible or not; False for padding. None: all True.
        text: Text that the entries' tokens belong to.
    """

    ids: Int[Tensor, "B S"]
    row: Int[Tensor, "N"]
    scores: Float[Tensor, "N S"]
    visible: Bool[Tensor, "N S"]
    first_position: int = 0
    stored: Bool[Tensor, "B S"] | None = None
    text: TextRead = "text"

    def map(self, change: Callable[[Tensor], Tensor]) -> CopyScores:
        return replace(self, row=change(self.row), scores=change(self.scores), visible=change(self.visible))

    def shared(self) -> Sequence[Tensor]:
        return ()

    def scored(self) -> CopyScores:
        return self

    def any_visible(self) -> Bool[Tensor, "N"]:
        """Whether each position sees any entry."""
        return self.visible.any(-1)

    def peak(self) -> Float[Tensor, "N"]:
        """Largest visible score, without gradient; ``-inf`` if no entry is visible."""
        if self.scores.shape[-1] == 0:
            return self.scores.new_full((len(self.scores),), -torch.inf)
        return self.scores.detach().masked_fill(~self.visible, -torch.inf).amax(-1)

    def relative(self) -> tuple[CopyScores, Float[Tensor, "N"]]:
        """The same entries with each position's largest visible score subtracted, and this score; 0 if none is visible.

        Without the subtraction, differences of two large masses would lose digits.
        """
        peak = self.peak()
        peak = peak.masked_fill(peak == -torch.inf, 0.0)  # nothing visible
        return self.lowered(peak), peak

    def lowered(self, by: Float[Tensor, "N"]) -> CopyScores:
        """The same entries with ``by`` subtracted from every score of a position."""
        return replace(self, scores=self.scores - by[:, None])

    def log_mass(self) -> Float[Tensor, "N"]:
        """Log of the summed mass of all visible entries; ``-inf`` if none is visible."""
        return masked_logsumexp(self.scores, self.visible)

    def by_position(self) -> Float[Tensor, "N S"]:
        """Score of the entry at each position of the text; ``-inf`` if no entry is there, or if it is not visible."""
        scores = self.scores.masked_fill(~self.visible, -torch.inf)
        return torch.nn.functional.pad(scores, (self.first_position, 0), value=-torch.inf)

    def holding(self, ids: Int[Tensor, "N"]) -> CopyScores:
        """The same entries, but position n sees only the visible entries with the token ``ids[n]``."""
        return replace(self, visible=self.visible & (self.ids[self.row] == ids[:, None]))

    def dividing(self, log_mass: Float[Tensor, "N 1"], ids: Int[Tensor, "N"]) -> Float[Tensor, "N S"]:
        """Divides the mass of each token ``ids[n]`` among its visible entries, in proportion to their mass.

        ``log_mass[n]`` is the log of the token's mass. The result has the logs of the parts, as in ``by_position``.
        """
        entries = self.holding(ids)
        held = entries.any_visible()[:, None]
        total = torch.where(held, entries.log_mass()[:, None], 0.0)
        return (entries.by_position() - total).to(log_mass.dtype) + log_mass.masked_fill(~held, 0.0)

    def log_mass_of(self, ids: Int[Tensor, "N K"], vocab_size: int) -> Float[Tensor, "N K"]:
        """For each of the K tokens ``ids`` per position, log of the summed mass of the visible entries with the token.

        ``-inf`` if no visible entry has the token.
        """
        if ids.shape[1] > _FEW_IDS:
            return self._looked_up(ids, vocab_size)
        stored = self.ids[self.row]
        columns = [masked_logsumexp(self.scores, self.visible & (stored == token[:, None])) for token in ids.unbind(1)]
        return torch.stack(columns, 1) if columns else self.scores.new_empty(ids.shape)

    def add_to_(self, log_mass: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        """``log(exp(log_mass) + mass)`` of every token, where ``mass`` is that of the visible entries with the token.

        If there are fewer entries than a quarter of the vocabulary, only stored tokens get new values. Do not use
        ``log_mass`` afterwards: without gradients, the result may overwrite it.
        """
        if self.ids.shape[1] >= _SHARE_LOOKED_UP * log_mass.shape[1]:
            return log_add_exp(log_mass, self.scatter(log_mass.shape[1]).to(log_mass.dtype))
        words, added = self._by_word(log_mass.shape[1])
        added, ids = added.to(log_mass.dtype), words.ids[self.row]
        values = log_add_exp(log_mass.gather(1, ids), added)
        target = log_mass.clone() if torch.is_grad_enabled() else log_mass
        return overwrite_(target, ids, values, added != -torch.inf)

    def _by_word(self, vocab_size: int) -> tuple[UniqueTokens, Float[Tensor, "N U"]]:
        """The distinct stored tokens, and the log-mass of each at every position."""
        in_vocabulary = (self.ids >= 0) & (self.ids < vocab_size)
        words = UniqueTokens.of(self.ids, in_vocabulary)
        column, counted = words.column[self.row], self.visible & in_vocabulary[self.row]
        return words, self._column_log_mass(column, counted, words.ids.shape[1])

    def _looked_up(self, ids: Int[Tensor, "N K"], vocab_size: int) -> Float[Tensor, "N K"]:
        """``log_mass_of`` computed with a lookup table (B, V) of the tokens of each sequence."""
        words, mass = self._by_word(vocab_size)
        count = words.ids.shape[1]
        filled = words.first < words.valid.shape[1]
        table = words.ids.new_full((len(self.ids), vocab_size + 1), count)
        table.scatter_(
            1, words.ids.masked_fill(~filled, vocab_size), torch.arange(count, device=ids.device).expand_as(words.ids)
        )
        nothing = mass.new_full((len(mass), 1), -torch.inf)
        return torch.cat([mass, nothing], 1).gather(1, table[self.row[:, None], ids])

    def _column_log_mass(
        self, index: Int[Tensor, "N S"], counted: Bool[Tensor, "N S"], columns: int
    ) -> Float[Tensor, "N columns"]:
        """Log of the summed mass per column, computed relative to the column's largest entry to avoid underflow."""
        scores = self.scores.masked_fill(~counted, -torch.inf)
        peak = scores.new_full((len(scores), columns), -torch.inf)
        peak = peak.scatter_reduce(1, index, scores.detach(), "amax")
        relative = (scores - peak.gather(1, index)).masked_fill(~counted, -torch.inf)
        total = self._column_sums(index, relative.exp(), columns)
        held = peak != -torch.inf
        return torch.where(held, peak + total.masked_fill(~held, 1.0).log(), peak)

    def _column_sums(
        self, index: Int[Tensor, "N S"], masses: Float[Tensor, "N S"], columns: int
    ) -> Float[Tensor, "N columns"]:
        return masses.new_zeros(len(masses), columns).scatter_add(1, index, masses)

    def scatter(self, vocab_size: int) -> Float[Tensor, "N V"]:
        """For each token of the vocabulary, log of the summed mass of its visible entries; ``-inf`` if it has none."""
        stored = self.ids[self.row]
        counted = self.visible & (stored >= 0) & (stored < vocab_size)
        return self._column_log_mass(stored.clamp(0, vocab_size - 1), counted, vocab_size)


# -- Retrieved tokens: entries that a search found in a store of other texts, separately for each position.


@dataclass(frozen=True)
class Retrieved(CopyScores):
    """Retrieved entries: each position has K entries of its own, which a search found.

    Retrieved entries are used like other entries: ``PointerMixture`` mixes them with any distribution, and
    ``SoftmaxDistribution`` normalises them together with its own scores. Make them with ``Retrieved.of``.

    Args:
        stands: Document of each entry's token, and the token's position in the document.
    """

    stands: Int[Tensor, "N K 2"] = field(kw_only=True)

    @classmethod
    def of(
        cls,
        ids: Int[Tensor, "N K"],
        scores: Float[Tensor, "N K"],
        visible: Bool[Tensor, "N K"],
        stands: Int[Tensor, "N K 2"],
    ) -> Retrieved:
        """Makes entries for N positions. ``visible`` must be False where fewer than K were found.

        Only differences of a position's ``scores`` matter, unless they are normalised together with other scores.
        """
        return cls(ids, torch.arange(len(ids), device=ids.device), scores, visible, text="store", stands=stands)

    def _column_sums(
        self, index: Int[Tensor, "N S"], masses: Float[Tensor, "N S"], columns: int
    ) -> Float[Tensor, "N columns"]:
        # a token may follow a thousand retrieved positions; summing them in single precision would lose four digits
        return super()._column_sums(index, masses.double(), columns).to(masses.dtype)

    def map(self, change: Callable[[Tensor], Tensor]) -> Retrieved:
        ids = change(self.ids)
        row = torch.arange(len(ids), device=ids.device)
        scores, visible, stands = change(self.scores), change(self.visible), change(self.stands)
        return replace(self, ids=ids, row=row, scores=scores, visible=visible, stands=stands)


def in_store(stored: Mapping[str, object]) -> dict[str, Int[Tensor, "N K 2"]]:
    """A mapping from name to documents and positions (``stands``), for the ``Retrieved`` entries in ``stored``."""
    return {name: entries.stands for name, entries in stored.items() if isinstance(entries, Retrieved)}


# -- The distinct tokens of each sequence; a partition scores each once, however often the token occurs.


@dataclass(frozen=True)
class UniqueTokens:
    """Distinct valid tokens of B sequences, in U columns; sequences with fewer distinct tokens have empty columns.

    Args:
        ids: Token of each column; 0 if the column is empty.
        first: First position that holds the token; S if the column is empty.
        column: Column of the token at each position; 0 if the position is not valid.
        valid: True for positions that count.
    """

    ids: Int[Tensor, "B U"]
    first: Int[Tensor, "B U"]
    column: Int[Tensor, "B S"]
    valid: Bool[Tensor, "B S"]

    @classmethod
    def of(cls, ids: Int[Tensor, "B S"], valid: Bool[Tensor, "B S"]) -> UniqueTokens:
        """The distinct tokens of B sequences with S ``ids`` each. Only positions that are ``valid`` count.

        >>> words = UniqueTokens.of(torch.tensor([[7, 3, 7, 9]]), torch.tensor([[True, True, True, False]]))
        >>> words.ids, words.first, words.column
        (tensor([[3, 7]]), tensor([[1, 0]]), tensor([[1, 0, 1, 0]]))
        """
        beyond = torch.iinfo(torch.long).max  # sorts positions that do not count to the end
        ordered, position = torch.where(valid, ids, beyond).sort(dim=1, stable=True)
        starts = torch.ones_like(valid)
        starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        rank = starts.cumsum(1) - 1
        counted = ordered != beyond
        # one additional column receives the positions that do not count, and is removed afterwards
        size = ids.shape[1] if torch.compiler.is_compiling() else _column_count(rank, counted)
        target = torch.where(counted, rank, size)
        words = ids.new_zeros(len(ids), size + 1).scatter(1, target, ordered)
        first = ids.new_full((len(ids), size + 1), ids.shape[1]).scatter_reduce(1, target, position, "amin")
        column = torch.zeros_like(ids).scatter(1, position, rank.masked_fill(~counted, 0))
        return cls(words[:, :size], first[:, :size], column, valid)

    def seen(self, row: Int[Tensor, "N"], before: Int[Tensor, "N"]) -> Bool[Tensor, "N U"]:
        """For each n, whether each token of the sequence ``row[n]`` occurs in it before the position ``before[n]``."""
        return self.first[row] < before[:, None]

    def occurring(self, row: Int[Tensor, "N"]) -> Bool[Tensor, "N U"]:
        """For each n, True for the columns of the sequence ``row[n]`` that are not empty."""
        return (self.first < self.valid.shape[1])[row]

    def at(self, visible: Bool[Tensor, "N S"], row: Int[Tensor, "N"]) -> Bool[Tensor, "N U"]:
        """For each n, whether each token of the sequence ``row[n]`` is at a valid position that is ``visible``."""
        there = visible & self.valid[row]
        found = there.new_zeros((len(row), self.ids.shape[1]), dtype=torch.uint8)
        return found.scatter_reduce(1, self.column[row], there.to(torch.uint8), "amax").bool()

    def mean(
        self, scores: Float[Tensor, "N S"], visible: Bool[Tensor, "N S"], row: Int[Tensor, "N"]
    ) -> Float[Tensor, "N U"]:
        """Mean of ``scores[n]`` over the visible positions of each token of the sequence ``row[n]``; 0 without any."""
        column = self.column[row]
        shape = (len(row), self.ids.shape[1])
        total = scores.new_zeros(shape).scatter_add(1, column, scores.masked_fill(~visible, 0.0))
        count = scores.new_zeros(shape).scatter_add(1, column, visible.to(scores.dtype))
        return total / count.clamp_min(1.0)


@dataclass(frozen=True)
class WordScores:
    """For each of N positions, scores of the distinct tokens of its sequence; those not ``present`` are ignored."""

    words: UniqueTokens
    row: Int[Tensor, "N"]
    scores: Float[Tensor, "N U"]
    present: Bool[Tensor, "N U"]

    @property
    def ids(self) -> Int[Tensor, "N U"]:
        """The distinct tokens of each position's sequence."""
        return self.words.ids[self.row]

    def map(self, change: Callable[[Tensor], Tensor]) -> WordScores:
        return WordScores(self.words, change(self.row), change(self.scores), change(self.present))


def _column_count(rank: Tensor, counted: Tensor) -> int:
    return int(rank.masked_fill(~counted, 0).max()) + 1 if rank.numel() else 1
