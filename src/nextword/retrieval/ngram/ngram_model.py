"""Next-token predictions from an n-gram index, mixed with the distribution of a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution import NextToken, PointerMixture, Retrieved
from nextword.retrieval.ngram.levels import Found, MatchWeights, find_levels, ranks_of
from nextword.retrieval.ngram.ngram_index import LastTokens, NgramIndex, StoredPosition

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SOURCE = "text"
"""Name of the n-gram index among the ``sources`` of a distribution."""


@dataclass(frozen=True)
class Origin:
    """A position of the corpus that contributes to a token's probability."""

    position: StoredPosition
    """Position of the token."""
    share: float
    """Probability that this position contributes to the token's probability."""

    place = property(attrgetter("position"))  # the old name


@dataclass(frozen=True)
class NgramModel:
    """An n-gram index, with weights for matches of several lengths (levels) and for the head's distribution."""

    index: NgramIndex
    weights: MatchWeights

    @classmethod
    def open(
        cls, folder: str | Path, weights: str | Path, tokenizer: PreTrainedTokenizerBase | None = None
    ) -> NgramModel:
        """Opens the index in ``folder`` and the file of its ``weights``.

        ``tokenizer`` is the tokenizer of the model. If it is None, it is not compared with that of the index.

        Raises:
            ValueError: If index or weights are missing, damaged, or were made with another tokenizer.
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
        """Finds the matches of each of ``contexts`` in the index, at all levels that have weights."""
        return find_levels(self.index, contexts, self.weights.evidence, self.weights.limit)

    def origins(self, context: Sequence[int] | Int[np.ndarray, "T"], token: int, most: int = 5) -> list[Origin]:
        """The ``most`` corpus positions that contribute most to the probability of ``token`` after ``context``."""
        last = len(context) - 1
        if last < 0:
            return []
        found = self.find(LastTokens.of_text(np.asarray(context), np.array([last])))
        _, rank, masses = _masses(found, torch.from_numpy(self.weights.at(found)))
        mass = masses.numpy()
        held = self.index.next_tokens(rank) == token
        best = np.argsort(-mass[held], kind="stable")[:most]
        places = self.index.next_positions(rank[held][best])
        return [Origin(place, float(mass)) for place, mass in zip(places, mass[held][best], strict=True)]


def mixed_with_ngrams(
    base: NextToken, memory: NgramModel, found: Found, dtype: torch.dtype = torch.float32
) -> PointerMixture:
    """Mixes a head's distribution ``base`` with the tokens after the matches ``found``. The weights are in ``memory``.

    Raises:
        ValueError: If the head has a smaller vocabulary than the index.
    """
    return mixture_at(base, memory.index, found, torch.from_numpy(memory.weights.at(found)), dtype)


def mixture_at(
    base: NextToken,
    index: NgramIndex,
    found: Found,
    shares: Float[Tensor, "N C"],
    dtype: torch.dtype = torch.float32,
    name: str = SOURCE,
) -> PointerMixture:
    """Mixes a head's distribution ``base`` with the tokens after the matches ``found`` in ``index``.

    A row of ``shares`` has the share of ``base``, and then the share of each level of matches, in double precision.
    Gradients reach ``shares``. ``name`` is the name of the index among the ``sources`` of the result.
    """
    index.manifest.expect_vocabulary(base.vocab_size, index.folder)
    row, rank, mass = _masses(found, shares)
    counts = np.bincount(row, minlength=len(base))
    column = np.arange(len(row)) - (counts.cumsum() - counts)[row]
    shape = (len(base), max(int(counts.max(initial=0)), 1))
    ids, stands = np.zeros(shape, dtype=np.int64), np.zeros((*shape, 2), dtype=np.int64)
    ids[row, column] = index.next_tokens(rank)
    stands[row, column] = np.stack(index.next_offsets(rank), 1)
    at = torch.from_numpy(row), torch.from_numpy(column)
    log_mass = torch.full(shape, -torch.inf, dtype=mass.dtype).index_put(at, mass.log())
    log_rest = shares[:, 1:].sum(1).clamp_min(torch.finfo(shares.dtype).tiny).log()
    scores, gate, rest = (one.to(base.device, dtype) for one in (log_mass, shares[:, 0].log(), log_rest))
    where = [one.to(base.device) for one in (torch.from_numpy(ids), log_mass > -torch.inf, torch.from_numpy(stands))]
    return PointerMixture(base, Retrieved.of(where[0], scores, *where[1:]), gate, rest, name)


def _masses(
    found: Found, shares: Float[Tensor, "N C"]
) -> tuple[Int[np.ndarray, "S"], Int[np.ndarray, "S"], Float[Tensor, "S"]]:
    """The mass of each corpus position in a match: context, rank in the sorted corpus, and mass."""
    row, rank = ranks_of(*found.widest())
    each = shares[:, 1:] / torch.from_numpy(np.maximum(found.counts, 1))
    mass = shares.new_zeros(len(row))
    for level in range(each.shape[1]):
        inside = (rank >= found.low[row, level]) & (rank < found.high[row, level])
        mass = mass + torch.where(torch.from_numpy(inside), each[:, level][row], 0.0)
    seen = (mass > 0).numpy()
    return row[seen], rank[seen], mass[seen]
