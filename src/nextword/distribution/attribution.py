"""Attribution: from which component, and from which place of the text, the probability of a token came."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.stored_entries import TextRead


class Attribution(ABC):
    """What a distribution answers about where its probabilities come from; each kind of distribution says it in logs.

    Components have names, such as ``softmax`` and ``cache``. A kind implements ``_log_sources``, and ``_log_places``
    where it points at places, for all its rows at once.
    """

    @abstractmethod
    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        """By component, log of the part of each token's probability (N, K)."""

    def _log_places(self) -> dict[str, Tensor]:
        """By component that points at places, log of the probability that came from each (N, S)."""
        return {}

    def _log_token_places(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        """By component that points at places, log of the part of each token's probability from each place (N, S)."""
        return {}

    def places_in(self) -> dict[str, TextRead]:
        """For each component in ``token_places``, which text its places are of.

        ``"text"`` is the decoder's own sequence. ``"source"`` is what the head reads beside it: the source of an
        encoder-decoder model, else the auxiliary text in the decoder's tokens. ``"store"``: the places are numbers of
        the tokens that were retrieved for each position, and ``stands_in_store`` says where each of those stands.
        """
        return {}

    def _stands(self) -> dict[str, Int[Tensor, "N K 2"]]:
        """By component that retrieves, document and place of each retrieved token."""
        return {}

    def stands_in_store(self) -> dict[str, Int[Tensor, "N K 2"]]:
        """For each component that retrieves tokens from a store, where they stand: document, and place within it.

        In the order of the K places that ``places`` and ``token_places`` give such a component.
        """
        return self._stands()

    @abstractmethod
    def __getitem__(self, rows: slice) -> Attribution: ...

    @abstractmethod
    def _chunks(self) -> list[slice]: ...

    @abstractmethod
    def _expect_rows(self, ids: Tensor) -> None: ...

    def sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Float[Tensor, "N K"]]:
        """For each component of the distribution, the part of each asked token's probability that came from it.

        The parts of a token add up to its probability.
        """
        self._expect_rows(ids)
        return _joined([self[rows]._log_sources(ids[rows]) for rows in self._chunks()])

    def places(self) -> dict[str, Float[Tensor, "N S"]]:
        """For each component that points at places, the probability at each position that came from each place.

        Places are those of the decoder's sequence (padding included), for an encoder-decoder model those of the source.
        Over the places that hold a token they add up to what ``sources`` says of it; components that point at
        nothing are not there.
        """
        return _joined([self[rows]._log_places() for rows in self._chunks()])

    def token_places(self, ids: Int[Tensor, "N"]) -> dict[str, Float[Tensor, "N S"]]:
        """For each component that points at places, the part of one token's probability that came from each place.

        ``places()`` is about all tokens, this about one token a position: the places that hold another are zero. Over
        the places the parts add up to what ``sources`` says of the token. ``places_in`` says of which text the
        places are.

        A cache or a pointer gives each place a probability. A partition (``+c``, ``+e``, ``+p``) gives a word one score
        for all places where it stands. Its probability is divided among them: evenly, or with local embeddings (``p``)
        in proportion to ``exp`` of each place's similarity. A component that no place explains is not there.

        Raises:
            ValueError: ``ids`` is not one token of the vocabulary for each position.
        """
        self._expect_rows(ids[:, None])
        return _joined([self[rows]._log_token_places(ids[rows]) for rows in self._chunks()])


def _joined(chunks: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Probabilities of all rows from the logs of each chunk."""
    return {name: torch.cat([chunk[name] for chunk in chunks]).exp() for name in chunks[0]}
