"""ComputedScores: the scores of one softmax, with what is needed to say where its probabilities came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.distribution.score_edits import Touched
from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.logspace import log_add_exp
from nextword.functional.retrieved_entries import in_store
from nextword.functional.stored_entries import Entries, TextRead


class ComputedScores(NextToken):
    """What ``Scores`` becomes when its (N, V) numbers are made.

    Any question is answered from these numbers: log-probabilities, or the same up to one constant for each row.

    Args:
        dense: What comes from the scores of the vocabulary, after the edits.
        touched: What edits changed, the latest change last.
        stored: Entries beside the scores, on the same scale.
        name: Name of what no edit changed.
    """

    def __init__(
        self, dense: Float[Tensor, "N V"], touched: Sequence[Touched], stored: Mapping[str, Entries], name: str
    ) -> None:
        self.dense = dense
        self.vocab_size = dense.shape[1]
        self.device = dense.device
        self.touched = tuple(touched)
        self.stored = dict(stored)
        self.name = name

    def __len__(self) -> int:
        return len(self.dense)

    def map(self, change: Callable[[Tensor], Tensor]) -> ComputedScores:
        """With ``change`` made to the scores, the edits and the stored entries."""
        return ComputedScores(
            change(self.dense),
            [touched.map(change) for touched in self.touched],
            {name: entries.map(change) for name, entries in self.stored.items()},
            self.name,
        )

    def shared(self) -> list[Tensor]:
        """Nothing: every position has numbers of its own."""
        return []

    def places_in(self) -> dict[str, TextRead]:
        """The texts that edits and stored entries point into."""
        edited = {touched.source: touched.places.text for touched in self.touched if touched.places is not None}
        return edited | {name: entries.text for name, entries in self.stored.items()}

    def _stands(self) -> dict[str, Tensor]:
        return in_store(self.stored)

    def _log_probs(self) -> Float[Tensor, "N V"]:
        log_probs = self.dense.clone()
        for entries in self.stored.values():
            log_probs = entries.add_to_(log_probs)
        return log_probs

    def _log_prob(self, ids: Int[Tensor, "N K"], single_pass: SinglePass | None = None) -> Float[Tensor, "N K"]:
        log_prob = self.dense.gather(1, ids)
        for entries in self.stored.values():
            log_prob = log_add_exp(log_prob, entries.log_mass_of(ids, self.vocab_size).to(log_prob.dtype))
        return log_prob

    def _by_edit(self, ids: Int[Tensor, "N K"]) -> Iterator[tuple[Touched, Tensor]]:
        """Each edit, the latest first, with the log-probabilities of the tokens whose score it made."""
        dense, untaken = self.dense.gather(1, ids), torch.ones_like(ids, dtype=torch.bool)
        for touched in reversed(self.touched):  # the latest change of a token is the one that stands
            changed = touched.holds(ids, self.vocab_size) & untaken
            untaken = untaken & ~changed
            yield touched, dense.masked_fill(~changed, -torch.inf)
        yield Touched(self.name, ids, untaken), dense.masked_fill(~untaken, -torch.inf)

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        shares: dict[str, Tensor] = {}
        for touched, share in reversed(list(self._by_edit(ids))):
            earlier = shares.get(touched.source)
            shares[touched.source] = share if earlier is None else log_add_exp(earlier, share)
        for name, entries in self.stored.items():
            shares[name] = entries.log_mass_of(ids, self.vocab_size).to(self.dense.dtype)
        return shares

    def _log_places(self) -> dict[str, Tensor]:
        return {name: entries.by_place() for name, entries in self.stored.items()}

    def _log_token_places(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        places: dict[str, Tensor] = {}
        for touched, share in self._by_edit(ids[:, None]):
            if touched.places is not None:
                at, earlier = touched.places.dividing(share, ids), places.get(touched.source)
                places[touched.source] = at if earlier is None else log_add_exp(earlier, at)
        return places | {name: entries.holding(ids).by_place() for name, entries in self.stored.items()}
