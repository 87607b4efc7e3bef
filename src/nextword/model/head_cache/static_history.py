"""A history of fixed size, for static KV caches: the same addresses in every step, so that a step can be compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.heads.pass_memory import IDS
from nextword.model.head_cache.history import History, unknown


class StaticHistory(History):
    """Writes in place, counts in a tensor, and never asks the device for a number.

    Its number of sequences is fixed by the first pass, and it cannot be cropped: so it says what transformers' static
    cache says of itself.

    Args:
        max_length: Most places of text that it can hold.
    """

    def __init__(self, max_length: int) -> None:
        self._streams: dict[str, Tensor] = {}
        self._windows: dict[str, Tensor] = {}
        self._source: dict[str, Tensor] = {}
        self._max_length = max_length
        self._length = torch.zeros((), dtype=torch.long)
        self._knows_source = False

    @property
    def length(self) -> Tensor:
        """Places of the text so far, as a tensor that is never read on the host."""
        return self._length

    def reserve(self, places: int) -> None:
        """Makes sure that so many places fit. Not for compiled code: the addresses change where it must grow."""
        missing = places - self._max_length
        if missing > 0:
            self._max_length = places
            grown = {name: torch.cat([held, unknown(held, missing)], 1) for name, held in self._streams.items()}
            self._streams = _fixed(grown)

    def write(self, new: Mapping[str, Tensor]) -> Tensor:
        """Writes the new places behind the last."""
        if not self._streams:
            self._length = self._length.to(new[IDS].device)
            _fixed({"length": self._length})
            self._streams = _fixed({name: unknown(stream, self._max_length) for name, stream in new.items()})
        first = self._length.clone()
        places = first + torch.arange(new[IDS].shape[1], device=first.device)
        for name, stream in new.items():
            self._streams[name].index_copy_(1, places, stream.detach().to(self._streams[name].dtype))
        self._length.add_(len(places))
        return first

    def read(self) -> dict[str, Tensor]:
        """All streams in full length; later passes write into them."""
        return dict(self._streams)

    def preceded(self, name: str, new: Tensor, places: int) -> Tensor:
        """As in the contract; the window has a fixed address and holds nothing beyond it."""
        if name not in self._windows:
            self._windows |= _fixed({name: new.new_zeros(new.shape[0], places, *new.shape[2:])})
        window = self._windows[name]
        joined = torch.cat([window.to(new.dtype), new], 1)
        window.copy_(joined[:, -places:].detach())
        return joined

    def of_source(self, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        """As in the contract, at fixed addresses."""
        if not self._knows_source:
            for name, made in make().items():
                if name not in self._source or self._source[name].shape != made.shape:
                    self._source |= _fixed({name: torch.empty_like(made)})
                self._source[name].copy_(made.detach())
            self._knows_source = True
        return self._source

    @property
    def knows_source(self) -> bool:
        """Whether what lies at the fixed addresses is of this text."""
        return self._knows_source

    def reset(self) -> None:
        """Forgets everything, in place."""
        for stream in (*self._streams.values(), *self._windows.values()):
            stream.fill_(-1 if stream.dtype == torch.long else 0)
        self._length.zero_()
        self._knows_source = False

    def crop(self, change: int) -> None:
        """Not possible, as for the keys and values; transformers asks the cache first (``is_croppable``)."""
        if change < 0:
            raise ValueError("a static cache cannot be cropped; use the dynamic cache for assisted decoding")

    def reorder(self, index: Tensor) -> None:
        """Sequence i becomes what sequence ``index[i]`` was, in place."""
        self._replace(lambda stream: stream.index_select(0, index.to(stream.device)))

    def repeat(self, repeats: int) -> None:
        """Not possible in place, unless there is nothing to do."""
        self._replace(lambda stream: stream.repeat_interleave(repeats, 0))

    def _replace(self, change: Callable[[Tensor], Tensor]) -> None:
        for stream in (*self._streams.values(), *self._windows.values(), *self._source.values()):
            changed = change(stream)
            if changed.shape != stream.shape:
                raise ValueError("a static cache cannot change its number of sequences; use the dynamic cache")
            stream.copy_(changed)


def _fixed(buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same buffers, on whose addresses a compiled step may rely."""
    if not is_torchdynamo_compiling():
        for buffer in buffers.values():
            torch._dynamo.mark_static_address(buffer)
    return buffers
