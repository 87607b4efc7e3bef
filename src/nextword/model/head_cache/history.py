"""The contract: what a head keeps between steps, and what may happen to it in between."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from nextword.heads.context import Memory
from nextword.heads.pass_memory import DOCUMENT, IDS, VALID, PassMemory


class History(PassMemory):
    """What is kept of each sequence between forward passes.

    For example ``softmax+cpr:20,100+mi`` keeps the token and a local embedding of every place of the text (streams),
    and of the last few places the states of three layers (a window). ``pg`` on an encoder-decoder model keeps the local
    embeddings of the source::

        stream   (B, S, ...)  one entry for each place of the text, all of them read again in every step
        window   (B, W, ...)  entries of the last W places, read only from the places just behind them
        source   (B, E, ...)  of the source or of the auxiliary text, made in the first pass and only read afterwards

    In each pass the model calls ``preceded`` for every window of the head, then ``append`` once; and
    ``of_source`` where there is a source. Between passes whoever owns the KV cache calls the moves: ``reset``,
    ``crop``, ``align``, ``reorder`` and ``repeat``; and ``reserve`` before a long text.

    To write another home, implement ``write`` and ``read`` for the streams, ``preceded`` and ``of_source``, and the
    moves. What is stored for a place depends on the tokens up to that place only, as keys and values do. A move that
    cannot happen in a home raises ValueError and says what to do instead.
    """

    virtual = 0
    """Places of the KV cache before the text that hold no words (soft prefix); they are not counted in ``length``."""

    looked_back: int | None = None
    """How many places before the new ones must be read again: a home that grows may forget those before them. None:
    all."""

    @property
    @abstractmethod
    def length(self) -> int | Tensor:
        """Places of the KV cache so far, forgotten ones too; a tensor where the host must not wait for it."""

    # -- in a pass

    def append(self, ids: Tensor, valid: Tensor, streams: Mapping[str, Tensor]) -> tuple[Memory, int | Tensor]:
        """Adds the places of one forward pass.

        Args:
            ids: Tokens (B, T), negative where unknown.
            valid: False at padding (B, T).
            streams: What the head keeps of each place, (B, T, ...) by name; the same names in every pass.

        Returns:
            The whole memory, the new places at its end or at their fixed address, and the place of the first new token
            in it.
        """
        first = self.remember(ids, valid, streams)
        return self.recall(), first

    def recall(self) -> Memory:
        """The texts so far, a row for each, the new places in them."""
        streams = self.read()
        kept = {name: stream for name, stream in streams.items() if name not in (IDS, VALID, DOCUMENT)}
        return Memory(streams[IDS], streams[VALID], kept, document=streams.get(DOCUMENT))

    @abstractmethod
    def read(self) -> dict[str, Tensor]:
        """All streams by name, (B, S, ...) with a row for each text. Places behind a text are not valid."""

    @abstractmethod
    def of_source(self, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        """What is kept of the source (B, ...): made by ``make`` in the first pass, the same ever after."""

    @property
    @abstractmethod
    def knows_source(self) -> bool:
        """Whether something is kept of a source."""

    # -- between passes

    @abstractmethod
    def reserve(self, places: int) -> None:
        """Makes sure that so many places of text fit."""

    @abstractmethod
    def reset(self) -> None:
        """Forgets everything: the next pass begins another text."""

    @abstractmethod
    def crop(self, change: int) -> None:
        """Forgets the last ``-change`` places (rejected candidates); 0 or more forgets none. The source stays."""

    def align(self, dropped: Tensor, length: int) -> None:
        """Sequence i forgets its last ``dropped[i]`` places (B,); all end together again, ``length`` places in all.

        What a shorter sequence lacks at its beginning is padding.

        Raises:
            ValueError: This home keeps all sequences of one length.
        """
        raise ValueError(
            f"{type(self).__name__}: must crop all sequences alike ({dropped.tolist()} given); use a dynamic cache"
        )

    @abstractmethod
    def reorder(self, index: Tensor) -> None:
        """Sequence i becomes what sequence ``index[i]`` was (beams); the index may be shorter than the batch."""

    @abstractmethod
    def repeat(self, repeats: int) -> None:
        """Every sequence ``repeats`` times, copies side by side (several continuations of each)."""


def unknown(like: Tensor, places: int) -> Tensor:
    """Places (B, ``places``, ...) of a stream of which nothing is known: token -1, not valid, zeros."""
    shape = (like.shape[0], places, *like.shape[2:])
    return torch.full(shape, -1 if like.dtype == torch.long else 0, dtype=like.dtype, device=like.device)
