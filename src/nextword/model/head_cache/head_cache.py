"""The cache of a head between decoding steps: its interface, and a dynamic and a static implementation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Shaped
from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.functional.padding import aligned_at_end, known_at_end
from nextword.heads.context import DOCUMENT, IDS, VALID, HeadCacheView, Memory


class HeadCache(HeadCacheView):
    """Values of each sequence that a head keeps between forward passes.

    For example ``softmax+cpr:20,100+mi`` keeps the token and a local embedding of every position of the text (streams),
    and the states of three layers at the last few positions (a window). ``pg`` on an encoder-decoder model keeps the
    local embeddings of the source::

        stream   (B, S, ...)  one entry for each position of the text, all of them read again in every step
        window   (B, W, ...)  entries of the last W positions, read only at the positions right after them
        source   (B, E, ...)  entries of the source or of the auxiliary text, made in the first pass, later only read

    In each pass the model calls ``preceded`` for every window of the head, ``remember`` and ``recall`` once, and
    ``of_source`` if there is a source. Between passes the KV cache calls ``reset``, ``crop``, ``reorder`` or ``repeat``
    when it changes keys and values in this way, and speculative decoding calls ``align``. ``generate`` calls
    ``reserve`` if the KV cache does not show its maximum length.

    Like keys and values, the values of a position depend only on the tokens up to this position. If an implementation
    does not support an operation, it raises a ValueError that says what to do instead.
    """

    virtual = 0
    """Number of virtual positions in the KV cache before the text (soft prefix); not counted in ``length``."""

    @property
    @abstractmethod
    def length(self) -> int | Tensor:
        """Number of the text's positions in the KV cache, also those dropped here; in a static cache a tensor."""

    # -- during a pass

    def recall(self) -> Memory:
        """See ``HeadCacheView.recall``. New positions are last; in a static cache, ``write`` returns their index."""
        streams = self.read()
        kept = {name: stream for name, stream in streams.items() if name not in (IDS, VALID, DOCUMENT)}
        return Memory(streams[IDS], streams[VALID], kept, document=streams.get(DOCUMENT))

    @abstractmethod
    def read(self) -> dict[str, Tensor]:
        """Mapping from name to stream (B, S, ...), one row per text. After the text, the stream ``VALID`` is False."""

    @abstractmethod
    def of_source(self, make: Callable[[], Mapping[str, Tensor]], virtual: int = 0) -> Mapping[str, Tensor]:
        """Mapping from name to values (B, ...) of the source, computed by ``make`` in the first pass and then reused.

        ``virtual`` is the number of virtual positions that this pass puts before the text.
        """

    @property
    @abstractmethod
    def knows_source(self) -> bool:
        """Whether values of a source are cached."""

    # -- between passes

    @abstractmethod
    def reserve(self, positions: int) -> None:
        """Makes a cache of fixed size large enough for ``positions`` positions of text."""

    @abstractmethod
    def reset(self) -> None:
        """Clears the cache: the next pass begins another text."""

    @abstractmethod
    def crop(self, change: int) -> None:
        """Removes the last ``-change`` positions, such as rejected draft tokens (``change`` <= 0). The source stays."""

    def align(self, dropped: Tensor, length: int) -> None:
        """Removes the last ``dropped[i]`` positions of sequence i, then moves all sequences to end at ``length``.

        Shorter sequences get padding at the beginning. A static cache does not support this method.
        """
        raise ValueError(
            f"{type(self).__name__}: must crop all sequences alike ({dropped.tolist()} given); use a dynamic cache"
        )

    @abstractmethod
    def reorder(self, index: Tensor) -> None:
        """Replaces sequence i by sequence ``index[i]`` (beam search). The index may be shorter than the batch."""

    @abstractmethod
    def repeat(self, repeats: int) -> None:
        """Repeats every sequence ``repeats`` times, copies side by side, for several continuations of each."""


def unknown(like: Tensor, positions: int) -> Tensor:
    """Makes values (B, ``positions``, ...) for unknown positions of stream ``like``: -1 for integers, else 0."""
    shape = (like.shape[0], positions, *like.shape[2:])
    return torch.full(shape, -1 if like.dtype == torch.long else 0, dtype=like.dtype, device=like.device)


# -- A head cache whose streams grow with the text, for dynamic KV caches and for a single pass.

# number of positions that a window keeps beyond its width, so that draft tokens can be removed again; a stream that
# drops its oldest positions also keeps so many more
_CROPPABLE = 64


class DynamicHeadCache(HeadCache):
    """A head cache that grows as needed and supports all operations. It drops positions that the head no longer reads.

    Args:
        unseen: Number of positions that were in the KV cache before this head cache was attached; their values are
            unknown.
    """

    def __init__(self, unseen: int = 0) -> None:
        self._streams: dict[str, GrowingTensor] = {}
        self._windows: dict[str, GrowingTensor] = {}
        self._source: dict[str, Tensor] = {}
        self._unseen = unseen
        self._begin = 0  # index in the KV cache of the first kept position; negative if it is before the KV cache

    @property
    def length(self) -> int:
        """Number of positions of the text in the KV cache."""
        return self._begin + (self._kept if self._streams else self._unseen)

    @property
    def _kept(self) -> int:
        return self._streams[IDS].positions.shape[1] if self._streams else 0

    def write(self, new: Mapping[str, Tensor], looks_back: int | None = None) -> int:
        """See ``HeadCacheView.write``. Returns the index, among the kept positions, of the first new position."""
        self._expect_reach(looks_back)
        if not self._streams and not self._unseen:
            self._streams = {name: GrowingTensor(stream) for name, stream in new.items()}
            return 0
        if not self._streams:
            self._streams = {name: GrowingTensor(unknown(stream, self._unseen)) for name, stream in new.items()}
        kept, count = self._kept, new[IDS].shape[1]
        at_most = None if looks_back is None else looks_back + max(_CROPPABLE, count)
        for name, stream in new.items():
            self._streams[name].append(stream, at_most)
        first = self._kept - count
        self._begin += kept - first
        return first

    def _expect_reach(self, looks_back: int | None) -> None:
        if self._begin > 0 and (looks_back is None or self._kept < looks_back):
            raise ValueError(
                f"the cache was cropped by more than {_CROPPABLE} positions, or 'long' is larger than before, so "
                "positions that the head reads were already dropped; run the model on the text again"
            )

    def read(self) -> dict[str, Tensor]:
        """All kept positions of every stream; tensors returned earlier keep their values."""
        return {name: stream.positions for name, stream in self._streams.items()}

    def preceded(self, name: str, new: Tensor, positions: int) -> Tensor:
        """See ``HeadCacheView.preceded``. A few more positions are kept, so that ``crop`` can remove some."""
        if name not in self._windows:
            self._windows[name] = GrowingTensor(new.new_zeros(new.shape[0], positions, *new.shape[2:]))
        window = self._windows[name]
        if window.positions.shape[1] < positions:
            raise ValueError(
                f"the cache was cropped by more than {_CROPPABLE} positions, and the head keeps no more of the states "
                f"that it reads (+mi). For assisted generation set num_assistant_tokens to at most {_CROPPABLE} and "
                "num_assistant_tokens_schedule to 'constant'; otherwise crop less, or run the model on the text again"
            )
        window.append(new, at_most=positions + max(_CROPPABLE, new.shape[1]))
        return window.positions[:, -(positions + new.shape[1]) :]

    def of_source(self, make: Callable[[], Mapping[str, Tensor]], virtual: int = 0) -> Mapping[str, Tensor]:
        """See ``HeadCache.of_source``."""
        if not self._source:
            self._source = dict(make())
        if virtual:
            self.virtual = virtual
        return self._source

    @property
    def knows_source(self) -> bool:
        """Whether values of a source are cached."""
        return bool(self._source)

    def reserve(self, positions: int) -> None:
        """Does nothing, because the streams grow as needed."""

    def reset(self) -> None:
        """Clears the cache."""
        self._streams, self._windows, self._source = {}, {}, {}
        self._unseen, self._begin, self.virtual = 0, 0, 0

    def crop(self, change: int) -> None:
        """See ``HeadCache.crop``."""
        if change >= 0:
            return
        if not self._streams:
            self._unseen = max(0, self._unseen + change)
        elif self._kept + change <= 0:
            self._begin = max(0, self.length + change)
            self._streams, self._windows, self._unseen = {}, {}, 0
        for stream in self._tensors:
            stream.crop(change)

    def align(self, dropped: Tensor, length: int) -> None:
        """See ``HeadCache.align``."""
        if not self._streams:
            self._unseen = length
            return
        kept = length - self._begin
        valid = known_at_end(self._streams[VALID].positions, dropped, kept)
        for stream in self._streams.values():
            stream.align(dropped, kept)
        self._streams[VALID] = GrowingTensor(valid)
        most = int(dropped.max())
        for window in self._windows.values():  # each window keeps the positions that all sequences have
            window.align(dropped, window.positions.shape[1] - most)

    def reorder(self, index: Tensor) -> None:
        """Replaces sequence i by sequence ``index[i]``."""
        for stream in self._tensors:
            stream.select(index)
        self._source = {name: stream.index_select(0, index.to(stream.device)) for name, stream in self._source.items()}

    def repeat(self, repeats: int) -> None:
        """Repeats every sequence ``repeats`` times, with copies side by side."""
        for stream in self._tensors:
            stream.repeat(repeats)
        self._source = {name: stream.repeat_interleave(repeats, 0) for name, stream in self._source.items()}

    @property
    def _tensors(self) -> list[GrowingTensor]:
        return [*self._streams.values(), *self._windows.values()]


# -- A tensor that grows along its second dimension, without a copy in every step.

# spare positions of a stream after it has grown: at least _ROOM, and one for every _SHARE positions that it has
_ROOM, _SHARE = 64, 4


class GrowingTensor:
    """A tensor of positions (B, S, ...) with spare capacity, so that appending positions does not copy earlier ones.

    Tensors read from ``positions`` keep their values, because their memory is never overwritten. So a cropped tensor
    grows into a new block, and nothing is written in place while gradients are recorded. The initial tensor is copied
    only when it grows.

    >>> stream = GrowingTensor(torch.zeros(1, 2))
    >>> stream.append(torch.ones(1, 1))
    >>> stream.positions
    tensor([[0., 0., 1.]])
    """

    def __init__(self, positions: Shaped[Tensor, "B S ..."]) -> None:
        self._hold(positions)

    def _hold(self, positions: Tensor) -> None:
        self.positions = self._block = positions
        self._end = positions.shape[1]

    def __getstate__(self) -> Tensor:
        # a copy or a file does not need the spare positions
        return self.positions.clone()

    def __setstate__(self, positions: Tensor) -> None:
        self._hold(positions)

    def append(self, new: Tensor, at_most: int | None = None) -> None:
        """Appends ``new`` (B, T, ...), and keeps only the last ``at_most`` positions (more than T; None: all)."""
        start = 0 if at_most is None else max(0, self.positions.shape[1] + new.shape[1] - at_most)
        if not self._takes(new):
            self._hold(torch.cat([self.positions[:, start:], new], 1))
            return
        foreign = self._block.is_inference() != torch.is_inference_mode_enabled()  # torch forbids writing across modes
        if foreign or self._end + new.shape[1] > self._block.shape[1]:
            self._move(self.positions[:, start:], new.shape[1])
            start = 0
        begin = self._end - self.positions.shape[1] + start
        self._block[:, self._end : self._end + new.shape[1]] = new
        self._end += new.shape[1]
        self.positions = self._block[:, begin : self._end]

    def _takes(self, new: Tensor) -> bool:
        # no writing in place while autograd records or torch.compile traces: they need a new tensor
        same = self.positions.dtype == new.dtype and len(self.positions) == len(new)
        return same and not torch.is_grad_enabled() and not torch.compiler.is_compiling()

    def _move(self, kept: Tensor, more: int) -> None:
        held = kept.shape[1]
        size = held + more + max(_ROOM, held // _SHARE)
        self._block = kept.new_empty(len(kept), size, *kept.shape[2:])
        self._block[:, :held] = kept
        self.positions, self._end = self._block[:, :held], held

    def detach(self) -> None:
        """Detaches the positions from the autograd graph."""
        if self.positions.requires_grad:
            self._hold(self.positions.detach())

    def crop(self, change: int) -> None:
        """Removes the last ``-change`` positions; ``change`` is negative."""
        self._hold(self.positions[:, :change])

    def select(self, index: Tensor) -> None:
        """Replaces sequence i by sequence ``index[i]``."""
        index, held = index.to(self.positions.device), self.positions.shape[1]
        if torch.is_grad_enabled():
            self._hold(self.positions.index_select(0, index))
            return
        block = self.positions.new_empty(len(index), held + max(_ROOM, held // _SHARE), *self.positions.shape[2:])
        self.positions = torch.index_select(self.positions, 0, index, out=block[:, :held])
        self._block, self._end = block, held

    def align(self, dropped: Tensor, length: int) -> None:
        """Removes the last ``dropped[i]`` positions of sequence i, then keeps the last ``length`` positions of each."""
        self._hold(aligned_at_end(self.positions, dropped, length))

    def repeat(self, repeats: int) -> None:
        """Repeats every sequence ``repeats`` times, with copies side by side."""
        self._hold(self.positions.repeat_interleave(repeats, 0))


# -- A head cache of fixed size, for static KV caches. Its addresses never change, so that a step can be compiled.


class StaticHeadCache(HeadCache):
    """A head cache of fixed size, written in place. Its length is a tensor, so that no pass waits for the device.

    It holds at most ``max_length`` positions of text. The first pass fixes its number of sequences. Like transformers'
    static cache, it cannot be cropped.
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
        """Number of positions of the text so far, as a tensor that is never read on the host."""
        return self._length

    def reserve(self, positions: int) -> None:
        """See ``HeadCache.reserve``. Do not call it in compiled code: a larger cache has other addresses."""
        missing = positions - self._max_length
        if missing > 0:
            self._max_length = positions
            grown = {name: torch.cat([held, unknown(held, missing)], 1) for name, held in self._streams.items()}
            self._streams = _fixed(grown)

    def write(self, new: Mapping[str, Tensor], looks_back: int | None = None) -> Tensor:
        """Writes the new positions after the last one, and returns the index of the first of them."""
        if not self._streams:
            self._length = self._length.to(new[IDS].device)
            _fixed({"length": self._length})
            self._streams = _fixed({name: unknown(stream, self._max_length) for name, stream in new.items()})
        first = self._length.clone()
        positions = first + torch.arange(new[IDS].shape[1], device=first.device)
        for name, stream in new.items():
            self._streams[name].index_copy_(1, positions, stream.detach().to(self._streams[name].dtype))
        self._length.add_(len(positions))
        return first

    def read(self) -> dict[str, Tensor]:
        """All streams at full length; later passes overwrite these tensors."""
        return dict(self._streams)

    def preceded(self, name: str, new: Tensor, positions: int) -> Tensor:
        """See ``HeadCacheView.preceded``. The window has a fixed address and no additional positions."""
        if name not in self._windows:
            self._windows |= _fixed({name: new.new_zeros(new.shape[0], positions, *new.shape[2:])})
        window = self._windows[name]
        joined = torch.cat([window.to(new.dtype), new], 1)
        window.copy_(joined[:, -positions:].detach())
        return joined

    def of_source(self, make: Callable[[], Mapping[str, Tensor]], virtual: int = 0) -> Mapping[str, Tensor]:
        """See ``HeadCache.of_source``. The values have fixed addresses."""
        if not self._knows_source:
            for name, made in make().items():
                if name not in self._source or self._source[name].shape != made.shape:
                    self._source |= _fixed({name: torch.empty_like(made)})
                self._source[name].copy_(made.detach())
            self._knows_source = True
        return self._source

    @property
    def knows_source(self) -> bool:
        """Whether the values at the fixed addresses belong to the current text."""
        return self._knows_source

    def reset(self) -> None:
        """Clears the cache in place."""
        for stream in (*self._streams.values(), *self._windows.values()):
            stream.fill_(-1 if stream.dtype == torch.long else 0)
        self._length.zero_()
        self._knows_source = False

    def crop(self, change: int) -> None:
        """Raises ValueError if ``change`` is negative, because a static cache cannot be cropped."""
        if change < 0:
            raise ValueError("a static cache cannot be cropped; use the dynamic cache for assisted decoding")

    def reorder(self, index: Tensor) -> None:
        """Replaces sequence i by sequence ``index[i]``, in place."""
        self._replace(lambda stream: stream.index_select(0, index.to(stream.device)))

    def repeat(self, repeats: int) -> None:
        """Raises ValueError unless ``repeats`` is 1, because the size is fixed."""
        self._replace(lambda stream: stream.repeat_interleave(repeats, 0))

    def _replace(self, change: Callable[[Tensor], Tensor]) -> None:
        for stream in (*self._streams.values(), *self._windows.values(), *self._source.values()):
            changed = change(stream)
            if changed.shape != stream.shape:
                raise ValueError("a static cache cannot change its number of sequences; use the dynamic cache")
            stream.copy_(changed)


def _fixed(buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same buffers, marked for compiled steps as having fixed addresses."""
    if not is_torchdynamo_compiling():
        for buffer in buffers.values():
            torch._dynamo.mark_static_address(buffer)
    return buffers
