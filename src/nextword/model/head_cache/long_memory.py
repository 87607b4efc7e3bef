"""What is remembered of a text longer than the window in which a model reads it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from nextword.heads.pass_memory import DOCUMENT, IDS
from nextword.model.head_cache.growing_history import GrowingHistory
from nextword.model.head_cache.growing_tensor import GrowingTensor


class LongMemory(GrowingHistory):
    """Goes from pass to pass, each with a KV cache of its own or with none: only what the head keeps is remembered.

    The rows of a pass are windows of one text, in order, and its new places go on where the last pass ended::

        memory = LongMemory()
        for rows, new in windows:  # (B, T) tokens, and True where a window does not repeat the one before
            distribution = model.distribution(rows, memory=memory, new_places=new)

    A head that looks back so far (``cache:long=12288``) sees the last 12,288 places, wherever the windows begin, and
    what lies further back is forgotten. Gradients go back to the places of the same pass only.

    Args:
        start: The token that begins a document, of which the text may have several: what came before it is not seen
            from there on. None: it is one document.
    """

    def __init__(self, start: int | None = None) -> None:
        super().__init__()
        self._start = start

    @property
    def begin(self) -> int:
        """How many places of the text came before the first one that is kept."""
        return self._begin

    def write(self, new: Mapping[str, Tensor]) -> int:
        """Adds the new places; of those before no gradient is made any more. Several rows may go on after one text."""
        rows = len(new[IDS])
        if self._streams and rows > 1 and len(self._streams[IDS].places) == 1:
            self.repeat(rows)
        for stream in self._tensors:
            stream.detach()
        if self._start is not None:
            number = (new[IDS] == self._start).long().cumsum(1)
            if DOCUMENT in self._streams:
                number = number + self._streams[DOCUMENT].places[:, -1:]
            new = {**new, DOCUMENT: number}
        return super().write(new)

    def kept(self) -> dict[str, Tensor]:
        """What is remembered, by name, such as for a checkpoint."""
        return {name: places.detach().clone() for name, places in self.read().items()}

    def keep(self, kept: Mapping[str, Tensor]) -> None:
        """Remembers what ``kept`` gave."""
        self.reset()
        self._streams = {name: GrowingTensor(places) for name, places in kept.items()}

    def before_cache(self) -> None:
        """A KV cache begins now: what is remembered came before its first place."""
        self._begin = -self._kept
