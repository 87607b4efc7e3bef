"""What a head remembers between decoding steps, and how it rides in the KV cache.

transformers hands one object through all of generation: the KV cache. It reorders it for beams, crops it after
rejected candidates, repeats it for several returned sequences. So the head's memory lives on that object: its class is
swapped for a subclass that moves the memory along with the keys and values. Appending a layer to the cache instead
would change its length, which other code counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.context import Memory
from nextword.memory.growing import Growing

_IDS, _VALID = "ids", "valid"

_CROPPABLE = 64
"""Places beyond its window that a windowed stream keeps, so that rejected candidates can be taken back."""


class History:
    """What is kept for each sequence between forward passes.

    - Streams (B, S, ...) that grow with every pass: token ids, validity, what the head keeps of each place.
    - Windowed streams, of which only the last places are ever read again.
    - What is kept of the source or of the auxiliary text, made once.
    """

    is_compileable = False
    is_croppable = True

    def __init__(self, unseen: int = 0) -> None:
        self._streams: dict[str, Growing] = {}
        self._windows: dict[str, Growing] = {}
        self._source: dict[str, Tensor] = {}
        self._unseen = unseen
        """Places that were in the KV cache before this history was attached; nothing is known of them."""
        self.virtual = 0
        """Places of the KV cache before the text that hold no words (soft prefix); they are not counted here."""

    @property
    def length(self) -> int | Tensor:
        """Places remembered so far."""
        return self._streams[_IDS].places.shape[1] if self._streams else self._unseen

    def append(self, ids: Tensor, valid: Tensor, streams: Mapping[str, Tensor]) -> tuple[Memory, int | Tensor]:
        """Adds the places of one forward pass.

        Args:
            ids: Tokens (B, T), negative where unknown.
            valid: False at padding (B, T).
            streams: What the head keeps of each place.

        Returns:
            The whole memory, and the place of the first new token.
        """
        # a copy: the caller may write the next tokens where these are
        new = {_IDS: ids.clone(), _VALID: valid & (ids >= 0), **streams}
        past = self._extend(new)
        kept = self._kept()
        return Memory(kept.pop(_IDS), kept.pop(_VALID), kept), past

    def _extend(self, new: dict[str, Tensor]) -> int | Tensor:
        """Adds to every stream; the place of what is first added."""
        past = self.length
        if not self._streams and self._unseen:
            self._streams = {name: Growing(_unknown(stream, self._unseen)) for name, stream in new.items()}
        if not self._streams:
            self._streams = {name: Growing(stream) for name, stream in new.items()}
            return past
        for name, stream in new.items():
            self._streams[name].append(stream)
        return past

    def _kept(self) -> dict[str, Tensor]:
        """All places of every stream."""
        return {name: stream.places for name, stream in self._streams.items()}

    def preceded(self, name: str, new: Tensor, places: int) -> Tensor:
        """New places of a windowed stream with those just before them, zeros before the start.

        Args:
            name: Of the stream.
            new: What the head computes from each new place (B, T, ...).
            places: How many earlier places come back in front of them.

        Returns:
            (B, places + T, ...).

        Raises:
            ValueError: The cache was cropped back beyond what is kept of this stream.
        """
        if name not in self._windows:
            self._windows[name] = Growing(new.new_zeros(new.shape[0], places, *new.shape[2:]))
        window = self._windows[name]
        if window.places.shape[1] < places:
            raise ValueError(
                f"the cache was cropped by more than {_CROPPABLE} places, and the head kept no more of the states that "
                f"it reads (+mi). For assisted generation set num_assistant_tokens to at most {_CROPPABLE} and "
                "num_assistant_tokens_schedule to 'constant'; otherwise crop less, or run the model on the text again"
            )
        window.append(new, at_most=places + max(_CROPPABLE, new.shape[1]))
        return window.places[:, -(places + new.shape[1]) :]

    def of_source(self, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        """What is kept of the source (B, ...): made at the first pass, the same ever after."""
        if not self._source:
            self._source = dict(make())
        return self._source

    @property
    def knows_source(self) -> bool:
        """Whether something is kept of a source."""
        return bool(self._source)

    def reserve(self, places: int) -> None:
        """Makes sure that so many places fit; this kind grows by itself."""

    def reset(self) -> None:
        """Forgets everything."""
        self._streams, self._windows, self._source, self._unseen, self.virtual = {}, {}, {}, 0, 0

    def crop(self, change: int) -> None:
        """Forgets the last ``-change`` places; transformers gives a negative number, or 0 for none."""
        if change >= 0:
            return
        if not self._streams:
            self._unseen = max(0, self._unseen + change)
        elif self.length + change <= 0:
            self._streams, self._windows, self._unseen = {}, {}, 0
        for stream in self._growing:
            stream.crop(change)

    def reorder(self, index: Tensor) -> None:
        """Sequence i becomes what sequence ``index[i]`` was."""
        for stream in self._growing:
            stream.select(index)
        self._source = {name: kept.index_select(0, index.to(kept.device)) for name, kept in self._source.items()}

    def repeat(self, repeats: int) -> None:
        """Every sequence ``repeats`` times, copies side by side."""
        for stream in self._growing:
            stream.repeat(repeats)
        self._source = {name: kept.repeat_interleave(repeats, 0) for name, kept in self._source.items()}

    @property
    def _growing(self) -> list[Growing]:
        return [*self._streams.values(), *self._windows.values()]


def _unknown(like: Tensor, places: int) -> Tensor:
    shape = (like.shape[0], places, *like.shape[2:])
    return torch.full(shape, -1 if like.dtype == torch.long else 0, dtype=like.dtype, device=like.device)


class StaticHistory(History):
    """A history of fixed size, for static caches: same addresses in every step, so a step can be compiled.

    Args:
        max_length: Most places it can hold.
    """

    is_compileable = True
    is_croppable = False

    def __init__(self, max_length: int) -> None:
        super().__init__()
        self._blocks: dict[str, Tensor] = {}
        self._before: dict[str, Tensor] = {}
        self._max_length = max_length
        self._next = torch.zeros((), dtype=torch.long)
        self._knows_source = False

    @property
    def length(self) -> int | Tensor:
        """Places remembered so far, as a tensor that is never read on the host."""
        return self._next

    def reserve(self, places: int) -> None:
        """Makes sure that so many places fit. Not for compiled code: the addresses change where it must grow."""
        missing = places - self._max_length
        if missing > 0:
            self._max_length = places
            self._blocks = _fixed({name: torch.cat([s, _unknown(s, missing)], 1) for name, s in self._blocks.items()})

    def _extend(self, new: dict[str, Tensor]) -> int | Tensor:
        if not self._blocks:
            self._next = self._next.to(new[_IDS].device)
            _fixed({"next": self._next})
            self._blocks = _fixed({name: _unknown(stream, self._max_length) for name, stream in new.items()})
        past = self._next.clone()
        places = past + torch.arange(new[_IDS].shape[1], device=past.device)
        for name, stream in new.items():
            self._blocks[name].index_copy_(1, places, stream.detach().to(self._blocks[name].dtype))
        self._next.add_(len(places))
        return past

    def _kept(self) -> dict[str, Tensor]:
        return dict(self._blocks)

    def preceded(self, name: str, new: Tensor, places: int) -> Tensor:
        """As for the growing history; the window has a fixed place and nothing beyond it is kept."""
        if name not in self._before:
            self._before |= _fixed({name: new.new_zeros(new.shape[0], places, *new.shape[2:])})
        kept = self._before[name]
        joined = torch.cat([kept.to(new.dtype), new], 1)
        kept.copy_(joined[:, -places:].detach())
        return joined

    def of_source(self, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        """As for the growing history, at fixed places."""
        if not self._knows_source:
            for name, made in make().items():
                if name not in self._source or self._source[name].shape != made.shape:
                    self._source |= _fixed({name: torch.empty_like(made)})
                self._source[name].copy_(made.detach())
            self._knows_source = True
        return self._source

    @property
    def knows_source(self) -> bool:
        """Whether what lies at the fixed places is of this text."""
        return self._knows_source

    def reset(self) -> None:
        """Forgets everything, in place."""
        for stream in (*self._blocks.values(), *self._before.values()):
            stream.fill_(-1 if stream.dtype == torch.long else 0)
        self._next.zero_()
        self._knows_source = False

    def crop(self, change: int) -> None:
        """Not possible in place; transformers asks ``is_croppable`` first."""
        if change < 0:
            raise ValueError("a static cache cannot be cropped; use the dynamic cache for assisted decoding")

    def reorder(self, index: Tensor) -> None:
        """As for the growing history, in place."""
        self._apply(lambda stream: stream.index_select(0, index.to(stream.device)))

    def repeat(self, repeats: int) -> None:
        """Not possible in place, unless there is nothing to do."""
        self._apply(lambda stream: stream.repeat_interleave(repeats, 0))

    def _apply(self, change: Callable[[Tensor], Tensor]) -> None:
        for stream in (*self._blocks.values(), *self._before.values(), *self._source.values()):
            changed = change(stream)
            if changed.shape != stream.shape:
                raise ValueError("a static cache cannot change its number of sequences; use the dynamic cache")
            stream.copy_(changed)


def _fixed(buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same buffers, whose addresses a compiled step may rely on."""
    if not is_torchdynamo_compiling():
        for buffer in buffers.values():
            torch._dynamo.mark_static_address(buffer)
    return buffers


class CacheWithHistory(Cache):
    """Stands before the cache's own class and moves the history along with it."""

    history: History

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Beam search chose other hypotheses."""
        super().reorder_cache(beam_idx)  # type: ignore[arg-type]  # annotated narrower than it is called
        self.history.reorder(beam_idx)

    def crop(self, tokens_to_remove: int) -> None:
        """Candidates were rejected."""
        super().crop(tokens_to_remove)
        self.history.crop(tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Several continuations of each sequence."""
        super().batch_repeat_interleave(repeats)
        self.history.repeat(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Some of the sequences."""
        super().batch_select_indices(indices)
        self.history.reorder(indices)

    def reset(self) -> None:
        """A new start."""
        super().reset()
        self.history.reset()

    def __reduce__(self) -> tuple[Any, ...]:
        # the class is made on the way and cannot be looked up by name; pickle makes it again from the cache's own
        return _blank, (type(self).__bases__[1],), self.__dict__

    @property
    def is_compileable(self) -> bool:
        """Both parts must be."""
        return bool(super().is_compileable) and self.history.is_compileable

    @property
    def is_croppable(self) -> bool:
        """Both parts must be."""
        return bool(super().is_croppable) and self.history.is_croppable


@cache
def _with_history(cache_class: Any) -> Any:
    return type(f"{cache_class.__name__}WithHistory", (CacheWithHistory, cache_class), {"__module__": __name__})


def _blank(cache_class: Any) -> Any:
    combined = _with_history(cache_class)
    return combined.__new__(combined)


def new_cache(config: Any) -> DynamicCache:
    """A dynamic KV cache with an empty history, for a forward pass that was given none."""
    empty: DynamicCache = _with_history(DynamicCache)(config=config)
    empty.history = History()  # type: ignore[attr-defined]
    return empty


def decoder_cache(kv_cache: Cache) -> Cache:
    """The part of a cache that grows with the decoder's tokens."""
    return kv_cache.self_attention_cache if isinstance(kv_cache, EncoderDecoderCache) else kv_cache


def history_of(kv_cache: Cache | None) -> History | None:
    """The history that rides in a cache, None where none was attached."""
    return None if kv_cache is None else getattr(decoder_cache(kv_cache), "history", None)


def kv_length(kv_cache: Cache) -> int | Tensor | None:
    """Places in a KV cache; None where it keeps no count (linear attention)."""
    inner = decoder_cache(kv_cache)
    try:
        return inner.get_seq_length() if len(inner.layers) else 0
    except ValueError:
        return None


def attach_history(kv_cache: Cache, max_length: int | None = None) -> History:
    """Makes a cache carry a history from now on.

    Args:
        kv_cache: Any cache of transformers; what it already holds counts as unknown to the history.
        max_length: For a static cache whose layers are all windows and do not tell the full length.
    """
    inner: Any = decoder_cache(kv_cache)
    static = len(inner.layers) > 0 and inner.is_compileable and inner.get_max_length() > 0
    if static:
        history: History = StaticHistory(max(max_length or 0, inner.get_max_length()))
    else:
        seen = kv_length(kv_cache)
        history = History(unseen=seen if isinstance(seen, int) else 0)
    inner.history = history
    inner.__class__ = _with_history(inner.__class__)
    return history
