"""Attaches a head cache to a KV cache of transformers.

Generation in transformers passes one object from step to step, the KV cache. It calls ``reorder_cache`` for beams,
``crop`` after rejected draft tokens, ``batch_repeat_interleave`` for several continuations, and ``reset`` for another
text. The head cache must be changed in the same way. So the head cache is the attribute ``head_cache`` of the KV cache,
and these methods are replaced on this object (``Moves``). Each new method changes keys and values as the method of the
class does, and then changes the head cache. The cache's class, its layers and all other caches are not changed.

Alternatives, and why they do not work:

- A subclass of our own: by ``type(cache)`` transformers decides whether to compile (``type(cache) is not
  DynamicCache``), and ``torch.export`` how to flatten a cache.
- An additional layer with the head cache: dynamic caches rely on the number of layers.
- A method on a layer: caches without a configuration have no layer before the first pass.
- A wrapper around the given cache: ``generate`` returns the wrapper, and we do not see when the caller crops the cache.
- The model's ``_reorder_cache``: transformers calls it only for beams.
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
"""Methods with which transformers changes the keys and values of a cache."""


class Moves:
    """The methods of a KV cache that change its keys and values, each followed by the same change of the head cache.

    The reference to the cache is weak. Otherwise a reference cycle would keep keys and values in memory until the
    garbage collector runs. Copies and pickles of the cache have methods and a head cache of their own.
    """

    def __init__(self, kv_cache: Cache, head_cache: HeadCache) -> None:
        self._kv_cache, self._head_cache = ref(kv_cache), head_cache
        # methods that the cache's owner set on this object; they are called instead of the methods of the class
        self._owners = {name: _owners_method(kv_cache, name) for name in MOVES}

    def __getstate__(self) -> tuple[Cache, HeadCache, dict[str, Any]]:
        return self._cache, self._head_cache, self._owners

    def __setstate__(self, state: tuple[Cache, HeadCache, dict[str, Any]]) -> None:
        self._kv_cache, self._head_cache, self._owners = ref(state[0]), state[1], state[2]

    def _move(self, name: str, argument: Any = None) -> None:
        # changes keys and values, by the method of the cache's owner or of its class
        kv_cache = self._cache
        method = self._owners.get(name) or getattr(type(kv_cache), name).__get__(kv_cache)
        method() if argument is None else method(argument)

    @property
    def _cache(self) -> Cache:
        kv_cache = self._kv_cache()
        if kv_cache is None:
            raise RuntimeError(
                "the KV cache of this method no longer exists: keep the cache while you use its methods, and copy it "
                "with copy.deepcopy (a shallow copy shares its layers, and changes the cache that it was copied from)"
            )
        return kv_cache

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Replaces sequence i by sequence ``beam_idx[i]``, for beam search."""
        self._move("reorder_cache", beam_idx)
        self._head_cache.reorder(beam_idx)

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last ``-tokens_to_remove`` positions, such as rejected draft tokens."""
        self._move("crop", tokens_to_remove)
        self._head_cache.crop(tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats each sequence ``repeats`` times, so that each can be continued several times."""
        self._move("batch_repeat_interleave", repeats)
        self._head_cache.repeat(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps only the sequences at ``indices``."""
        self._move("batch_select_indices", indices)
        self._head_cache.reorder(indices)

    def reset(self) -> None:
        """Clears the cache for another text."""
        self._move("reset")
        self._head_cache.reset()


def _owners_method(kv_cache: Cache, name: str) -> Any:
    """The method that the owner of a cache set on the object itself before a head cache was attached, or None."""
    method = vars(kv_cache).get(name)
    earlier = getattr(method, "__self__", None)
    return earlier._owners[name] if isinstance(earlier, Moves) else method


def put_head_cache_on(kv_cache: Any, head_cache: HeadCache) -> None:
    """Attaches a head cache to ``kv_cache`` (not an ``EncoderDecoderCache``), and replaces its methods in ``MOVES``."""
    moves = Moves(kv_cache, head_cache)
    kv_cache.head_cache = head_cache
    for name in MOVES:
        if hasattr(kv_cache, name):
            setattr(kv_cache, name, getattr(moves, name))


def new_cache(config: Any) -> DynamicCache:
    """Makes a dynamic KV cache with an empty head cache, for a forward pass to which no cache was given."""
    kv_cache = DynamicCache(config=config)
    put_head_cache_on(kv_cache, DynamicHeadCache())
    return kv_cache


def cache_argument(backbone: Any) -> str | None:
    """Name of the cache argument of ``backbone.forward`` (Mamba family: ``cache_params``); None if it has none."""
    taken = inspect.signature(backbone.forward).parameters
    return next((name for name in ("past_key_values", "cache_params") if name in taken), None)


def why_no_head_cache(backbone: Any) -> str:
    """The reason why no head cache can be attached to a model's cache; empty if one can be attached."""
    if cache_argument(backbone) is None:
        return "has no KV cache that transformers passes between decoding steps"
    if hasattr(backbone, "_setup_cache"):
        return "keeps the state of the text inside its layers, where beam search does not reorder it"
    return ""


def decoder_cache(kv_cache: Cache) -> Cache:
    """The part of ``kv_cache`` that grows with the decoder's tokens: its self-attention part, or the cache itself."""
    return kv_cache.self_attention_cache if isinstance(kv_cache, EncoderDecoderCache) else kv_cache


def head_cache_of(kv_cache: Cache | None) -> HeadCache | None:
    """The head cache attached to a KV cache; None if there is none."""
    return None if kv_cache is None else getattr(decoder_cache(kv_cache), "head_cache", None)


def kv_length(kv_cache: Cache) -> int | Tensor | None:
    """Number of positions in a cache. None if it does not count them (linear attention, some models' own caches)."""
    inner: Any = decoder_cache(kv_cache)
    if not isinstance(inner, Cache):
        return None
    if not len(inner.layers):
        return 0
    try:
        length: int | Tensor = inner.get_seq_length()
    except ValueError:
        return None
    if isinstance(length, int) and not length:  # MiniMax's linear attention leaves this layer of the cache empty
        length = max((layer.get_seq_length() for layer in inner.layers if isinstance(layer, DynamicLayer)), default=0)
    return length


def attach_head_cache(kv_cache: Cache, max_length: int | None = None) -> HeadCache:
    """Attaches a new head cache to any KV cache, and returns it.

    The head's values at positions that are already in ``kv_cache`` are unknown. ``max_length`` is the maximum length of
    a text. A static KV cache needs it if all its layers have sliding windows, which do not know the full length.
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
    """Whether sequences of a cache can be cropped by different numbers of tokens: yes if all layers only grow."""
    inner = decoder_cache(kv_cache)
    return isinstance(inner, DynamicCache) and all(type(layer) is DynamicLayer for layer in inner.layers)


def align(kv_cache: Cache, dropped: Tensor, length: int) -> None:
    """Removes the last ``dropped[i]`` positions of sequence i of a cache for which ``can_align`` is true.

    Then ``kv_cache`` has ``length`` positions, and all sequences end at the last one. Keys may move because they
    already include their position ids. The caller must mask the gaps before shorter sequences.
    """
    inner: Any = decoder_cache(kv_cache)
    for layer in inner.layers:
        if layer.is_initialized:
            layer.keys = aligned_at_end(layer.keys.transpose(1, 2), dropped, length).transpose(1, 2)
            layer.values = aligned_at_end(layer.values.transpose(1, 2), dropped, length).transpose(1, 2)
    head_cache = head_cache_of(kv_cache)
    if head_cache is not None:
        head_cache.align(dropped, length)


# -- The head cache of a text that is longer than the window in which a model reads it.


class LongMemory(DynamicHeadCache):
    """A head cache that is passed from one forward pass to the next without the KV cache, for long texts in windows.

    The rows of a pass are windows of one text, in order. Their new positions follow those of the previous pass::

        memory = LongMemory()
        for rows, new in windows:  # (B, T) tokens, and a mask: True at tokens that no earlier window has
            distribution = model.distribution(rows, memory=memory, new_positions=new)

    A head such as ``cache:long=12288`` reads the last 12,288 positions, wherever the windows begin; earlier positions
    are dropped. Gradients reach only positions of the same pass.

    Args:
        start: Token that begins a document, if the text has several documents. A head then sees only earlier positions
            of the same document. None: the text is one document.
    """

    def __init__(self, start: int | None = None) -> None:
        super().__init__()
        self._start = start

    @property
    def begin(self) -> int:
        """Number of positions of the text before the first kept position."""
        return self._begin

    def write(self, new: Mapping[str, Tensor], looks_back: int | None = None) -> int:
        """See ``DynamicHeadCache.write``. Gradients do not reach earlier passes.

        If the cache has one sequence and ``new`` has several, each of them continues the cached sequence.
        """
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
        """Mapping from stream name to a copy of its kept values, for instance for a checkpoint."""
        return {name: positions.detach().clone() for name, positions in self.read().items()}

    def keep(self, kept: Mapping[str, Tensor]) -> None:
        """Restores the values that ``kept`` returned."""
        self.reset()
        self._streams = {name: GrowingTensor(positions) for name, positions in kept.items()}

    def before_cache(self) -> None:
        """Call this method when a new KV cache begins. The kept positions are then before the KV cache."""
        self._begin = -self._kept
