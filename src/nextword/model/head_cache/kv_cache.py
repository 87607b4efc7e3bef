"""How a head cache rides in a KV cache of transformers.

transformers hands one object through all of generation, the KV cache, and calls its methods: ``reorder_cache`` for
beams, ``crop`` after rejected candidates, ``batch_repeat_interleave`` for several continuations, ``reset`` for another
text. The head cache must go through all of them too. So it lies on that object, as its attribute ``head_cache``, and
beside it lie these methods once more (``Moves``): each moves keys and values as the cache's class does, then the head
cache. They belong to this one object. Its class, its layers and every other cache stay as they are.

Other ways, and what each breaks:

- A class of ours in place of the object's: ``type(cache)`` changes, by which transformers decides whether to compile
  (``type(cache) is not DynamicCache``) and ``torch.export`` finds out how to flatten a cache.
- One more layer that holds the head cache: the cache's length changes, and dynamic caches number their layers by it.
- A method on a layer: caches without a configuration have no layer before the first pass.
- A cache of ours around the given one: ``generate`` returns ours, and a crop of the caller's own passes us by.
- The model's ``_reorder_cache``: transformers asks it for beams only; all other moves go to the cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any
from weakref import ref

from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, EncoderDecoderCache

from nextword.functional.padding import aligned_at_end
from nextword.heads.context import DOCUMENT, IDS
from nextword.model.head_cache.head_cache import DynamicHeadCache, GrowingTensor, HeadCache, StaticHeadCache

MOVES = ("reorder_cache", "crop", "batch_repeat_interleave", "batch_select_indices", "reset")
"""Methods by which transformers moves the keys and values of a cache."""


class Moves:
    """The methods of a KV cache that move its keys and values, each followed by the same move of the head cache.

    The cache is held weakly, since it holds these methods: a cycle would keep keys and values in memory until the
    garbage collector runs. Copies and pickles of the cache have moves of their own, with their own head cache.
    """

    def __init__(self, kv_cache: Cache, head_cache: HeadCache) -> None:
        self._kv_cache, self._head_cache = ref(kv_cache), head_cache
        # what the cache's owner put on this very object; it is called in place of the class's method
        self._owners = {name: _owners_method(kv_cache, name) for name in MOVES}

    def __getstate__(self) -> tuple[Cache, HeadCache, dict[str, Any]]:
        return self._cache, self._head_cache, self._owners

    def __setstate__(self, state: tuple[Cache, HeadCache, dict[str, Any]]) -> None:
        self._kv_cache, self._head_cache, self._owners = ref(state[0]), state[1], state[2]

    def _move(self, name: str, argument: Any = None) -> None:
        # of keys and values, as the owner of the cache or its class makes it
        kv_cache = self._cache
        method = self._owners.get(name) or getattr(type(kv_cache), name).__get__(kv_cache)
        method() if argument is None else method(argument)

    @property
    def _cache(self) -> Cache:
        kv_cache = self._kv_cache()
        if kv_cache is None:
            raise RuntimeError(
                "the KV cache that this method moves is gone: keep the cache while you use its methods, and copy it "
                "with copy.deepcopy (a shallow copy shares its layers, and moves the cache that it was copied from)"
            )
        return kv_cache

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Beam search chose other hypotheses."""
        self._move("reorder_cache", beam_idx)
        self._head_cache.reorder(beam_idx)

    def crop(self, tokens_to_remove: int) -> None:
        """Candidates were rejected."""
        self._move("crop", tokens_to_remove)
        self._head_cache.crop(tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Several continuations of each sequence."""
        self._move("batch_repeat_interleave", repeats)
        self._head_cache.repeat(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Some of the sequences."""
        self._move("batch_select_indices", indices)
        self._head_cache.reorder(indices)

    def reset(self) -> None:
        """Another text."""
        self._move("reset")
        self._head_cache.reset()


def _owners_method(kv_cache: Cache, name: str) -> Any:
    """What the owner of a cache put on it under this name, before any head cache was attached; None: nothing."""
    method = vars(kv_cache).get(name)
    earlier = getattr(method, "__self__", None)
    return earlier._owners[name] if isinstance(earlier, Moves) else method


def put_head_cache_on(kv_cache: Any, head_cache: HeadCache) -> None:
    """Lets a cache, not one of an encoder and a decoder, carry a head cache; moves that it lacks it keeps lacking."""
    moves = Moves(kv_cache, head_cache)
    kv_cache.head_cache = head_cache
    for name in MOVES:
        if hasattr(kv_cache, name):
            setattr(kv_cache, name, getattr(moves, name))


def new_cache(config: Any) -> DynamicCache:
    """A dynamic KV cache with an empty head cache, for a forward pass that was given none."""
    kv_cache = DynamicCache(config=config)
    put_head_cache_on(kv_cache, DynamicHeadCache())
    return kv_cache


def cache_argument(backbone: Any) -> str | None:
    """Name under which a model takes its cache, ``cache_params`` in the Mamba family; None where it takes none."""
    taken = inspect.signature(backbone.forward).parameters
    return next((name for name in ("past_key_values", "cache_params") if name in taken), None)


def why_no_head_cache(backbone: Any) -> str:
    """Why no head cache can ride in what a model keeps between steps; empty where one can."""
    if cache_argument(backbone) is None:
        return "keeps no cache of transformers between steps"
    if hasattr(backbone, "_setup_cache"):
        return "keeps states of the text in its layers, where beams do not move them"
    return ""


def decoder_cache(kv_cache: Cache) -> Cache:
    """The part of a cache that grows with the decoder's tokens."""
    return kv_cache.self_attention_cache if isinstance(kv_cache, EncoderDecoderCache) else kv_cache


def head_cache_of(kv_cache: Cache | None) -> HeadCache | None:
    """The head cache that rides in a cache, None where none was attached."""
    return None if kv_cache is None else getattr(decoder_cache(kv_cache), "head_cache", None)


def kv_length(kv_cache: Cache) -> int | Tensor | None:
    """Positions in a cache; None where it keeps no count (linear attention, and caches that are a model's own)."""
    inner: Any = decoder_cache(kv_cache)
    if not isinstance(inner, Cache):
        return None
    if not len(inner.layers):
        return 0
    try:
        length: int | Tensor = inner.get_seq_length()
    except ValueError:
        return None
    if isinstance(length, int) and not length:  # MiniMax keeps its linear attention elsewhere, and an empty layer here
        length = max((layer.get_seq_length() for layer in inner.layers if isinstance(layer, DynamicLayer)), default=0)
    return length


def attach_head_cache(kv_cache: Cache, max_length: int | None = None) -> HeadCache:
    """Makes any cache of transformers carry a head cache from now on, to which what it already holds is unknown.

    ``max_length`` is for a static cache whose layers are all windows and do not tell the full length.
    """
    inner = decoder_cache(kv_cache)
    head_cache: HeadCache
    if isinstance(inner, Cache) and len(inner.layers) and inner.is_compileable and inner.get_max_length() > 0:
        head_cache = StaticHeadCache(max(max_length or 0, inner.get_max_length()))
    else:
        seen = kv_length(kv_cache)
        head_cache = DynamicHeadCache(unseen=seen if isinstance(seen, int) else 0)
    put_head_cache_on(inner, head_cache)
    return head_cache


def can_align(kv_cache: Any) -> bool:
    """Whether each sequence of a cache can be cut at its end by its own number of tokens: all its layers just grow."""
    inner = decoder_cache(kv_cache)
    return isinstance(inner, DynamicCache) and all(type(layer) is DynamicLayer for layer in inner.layers)


def align(kv_cache: Cache, dropped: Tensor, length: int) -> None:
    """Sequence i of a cache that ``can_align`` forgets its last ``dropped[i]`` positions (B,).

    All end together again, ``length`` in all. Keys carry their positions, so they may move. What a sequence never
    had must be masked from now on.
    """
    inner: Any = decoder_cache(kv_cache)
    for layer in inner.layers:
        if layer.is_initialized:
            layer.keys = aligned_at_end(layer.keys.transpose(1, 2), dropped, length).transpose(1, 2)
            layer.values = aligned_at_end(layer.values.transpose(1, 2), dropped, length).transpose(1, 2)
    head_cache = head_cache_of(kv_cache)
    if head_cache is not None:
        head_cache.align(dropped, length)


# -- What is remembered of a text longer than the window in which a model reads it.


class LongMemory(DynamicHeadCache):
    """Goes from pass to pass, each with a KV cache of its own or with none: only what the head keeps is remembered.

    The rows of a pass are windows of one text, in order, and its new positions continue where the last pass ended::

        memory = LongMemory()
        for rows, new in windows:  # (B, T) tokens, and True where a window does not repeat the one before
            distribution = model.distribution(rows, memory=memory, new_positions=new)

    A head that looks back so far (``cache:long=12288``) sees the last 12,288 positions, wherever the windows begin, and
    what lies further back is forgotten. Gradients go back to the positions of the same pass only.

    Args:
        start: The token that begins a document, of which the text may have several: what came before it is not seen
            from there on. None: it is one document.
    """

    def __init__(self, start: int | None = None) -> None:
        super().__init__()
        self._start = start

    @property
    def begin(self) -> int:
        """How many positions of the text came before the first one that is kept."""
        return self._begin

    def write(self, new: Mapping[str, Tensor], looks_back: int | None = None) -> int:
        """See ``DynamicHeadCache.write``; no gradient reaches earlier passes. Several rows may continue one text."""
        rows = len(new[IDS])
        if self._streams and rows > 1 and len(self._streams[IDS].positions) == 1:
            self.repeat(rows)
        for stream in self._tensors:
            stream.detach()
        if self._start is not None:
            number = (new[IDS] == self._start).long().cumsum(1)
            if DOCUMENT in self._streams:
                number = number + self._streams[DOCUMENT].positions[:, -1:]
            new = {**new, DOCUMENT: number}
        return super().write(new, looks_back)

    def kept(self) -> dict[str, Tensor]:
        """What is remembered, by name, such as for a checkpoint."""
        return {name: positions.detach().clone() for name, positions in self.read().items()}

    def keep(self, kept: Mapping[str, Tensor]) -> None:
        """Remembers what ``kept`` gave."""
        self.reset()
        self._streams = {name: GrowingTensor(positions) for name, positions in kept.items()}

    def before_cache(self) -> None:
        """A KV cache begins now: what is remembered came before its first position."""
        self._begin = -self._kept
