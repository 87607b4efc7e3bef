"""What a corpus says comes next, mixed with the distribution of a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int

from nextword.distribution import NextToken, PointerMixture, Retrieved
from nextword.retrieval.ngram.levels import Found, MatchWeights, find_levels, ranks_of
from nextword.retrieval.ngram.ngram_index import LastTokens, NgramIndex, StoredPosition

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SOURCE = "text"
"""Name of the corpus in ``sources``."""


@dataclass(frozen=True)
class Origin:
    """A position of the corpus that a token's probability came from."""

    position: StoredPosition
    """Where the token stands."""
    share: float
    """The part of its probability that came from there."""

    place = property(attrgetter("position"))  # the old name


@dataclass(frozen=True)
class NgramModel:
    """A corpus, and how much each level of a match counts."""

    index: NgramIndex
    weights: MatchWeights

    @classmethod
    def open(
        cls, folder: str | Path, weights: str | Path, tokenizer: PreTrainedTokenizerBase | None = None
    ) -> NgramModel:
        """A corpus and weights from disk.

        Without ``tokenizer``, that of the model which will read it is trusted to be the same.

        Raises:
            ValueError: One of them is not there or damaged, or was made with another tokenizer.
        """
        made = cls(NgramIndex(folder), MatchWeights.load(weights))
        stored = made.index.manifest.tokenizer
        if made.weights.tokenizer not in (None, stored):
            raise ValueError(
                f"{weights}: must be fitted with the tokenizer of {folder} ({str(made.weights.tokenizer)[:12]} given, "
                f"{stored[:12]} there); fit the weights again"
            )
        if tokenizer is not None:
            made.index.manifest.expect_tokenizer(tokenizer, folder)
        return made

    def find(self, contexts: LastTokens) -> Found:
        """The levels of the match of each context."""
        return find_levels(self.index, contexts, self.weights.evidence, self.weights.limit)

    def origins(self, context: Sequence[int] | Int[np.ndarray, "T"], token: int, most: int = 5) -> list[Origin]:
        """The ``most`` places of the corpus that most of a token's mass after a context came from."""
        last = len(context) - 1
        if last < 0:
            return []
        found = self.find(LastTokens.of_text(np.asarray(context), np.array([last])))
        _, rank, mass = _masses(found, self.weights)
        held = self.index.next_tokens(rank) == token
        best = np.argsort(-mass[held], kind="stable")[:most]
        places = self.index.next_positions(rank[held][best])
        return [Origin(place, float(mass)) for place, mass in zip(places, mass[held][best], strict=True)]


def mixed_with_ngrams(
    base: NextToken, memory: NgramModel, found: Found, dtype: torch.dtype = torch.float32
) -> PointerMixture:
    """A head's distribution mixed with what a corpus says, as tokens that were retrieved.

    Raises:
        ValueError: The head has fewer tokens than may be stored.
    """
    memory.index.manifest.expect_vocabulary(base.vocab_size, memory.index.folder)
    row, rank, mass = _masses(found, memory.weights)
    counts = np.bincount(row, minlength=len(base))
    column = np.arange(len(row)) - (counts.cumsum() - counts)[row]
    shape = (len(base), max(int(counts.max(initial=0)), 1))
    ids, stands = np.zeros(shape, dtype=np.int64), np.zeros((*shape, 2), dtype=np.int64)
    log_mass = np.full(shape, -np.inf)
    ids[row, column], log_mass[row, column] = memory.index.next_tokens(rank), np.log(mass)
    stands[row, column] = np.stack(memory.index.next_offsets(rank), 1)
    log_head = np.log(memory.weights.at(found)[:, 0])
    log_rest = np.log(np.maximum(np.bincount(row, weights=mass, minlength=len(base)), np.finfo(float).tiny))
    scores, gate, rest = (torch.from_numpy(one).to(base.device, dtype) for one in (log_mass, log_head, log_rest))
    where = [torch.from_numpy(one).to(base.device) for one in (ids, np.isfinite(log_mass), stands)]
    return PointerMixture(base, Retrieved.of(where[0], scores, *where[1:]), gate, rest, SOURCE)


def _masses(
    found: Found, weights: MatchWeights
) -> tuple[Int[np.ndarray, "S"], Int[np.ndarray, "S"], Float[np.ndarray, "S"]]:
    """Every place that a level of a position has: the position, its rank in the corpus's order, and its mass."""
    row, rank = ranks_of(*found.widest())
    each = weights.at(found)[:, 1:] / np.maximum(found.counts, 1)
    mass = np.zeros(len(row))
    for level in range(each.shape[1]):
        inside = (rank >= found.low[row, level]) & (rank < found.high[row, level])
        mass += np.where(inside, each[row, level], 0.0)
    seen = mass > 0
    return row[seen], rank[seen], mass[seen]
