"""Every KV cache of transformers carries a head cache, stays what it was, and moves the head cache with its keys."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, GPT2Config, MistralConfig
from transformers.cache_utils import Cache, QuantizedCache, StaticCache

from nextword.model.head_cache.head_cache import DynamicHeadCache, StaticHeadCache
from nextword.model.head_cache.kv_cache import attach_head_cache, decoder_cache, head_cache_of, kv_length, new_cache
from tests.helpers.generating_models import NEW, headed, prompt
from tests.helpers.recomputation import assert_as_recomputed, generated

CONFIG = GPT2Config(n_layer=2, n_head=2, n_embd=4)
WINDOWS = MistralConfig(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, sliding_window=4)
HYBRID = GPT2Config(n_layer=3, n_head=2, n_embd=4, layer_types=["linear_attention", "full_attention", "hybrid"])


class CountingCache(DynamicCache):
    """Somebody's own class, with a crop of its own."""

    cropped = 0

    def crop(self, tokens_to_remove: int) -> None:
        self.cropped += 1
        super().crop(tokens_to_remove)


DYNAMIC: dict[str, Callable[[], Cache]] = {
    "lazy": DynamicCache,
    "with config": lambda: DynamicCache(config=CONFIG),
    "windows": lambda: DynamicCache(config=WINDOWS),
    "quantized": lambda: QuantizedCache("fp8", CONFIG),
    "encoder and decoder": lambda: EncoderDecoderCache(DynamicCache(), DynamicCache()),
    "somebody's own": CountingCache,
}
STATIC: dict[str, Callable[[], Cache]] = {
    "static": lambda: StaticCache(config=CONFIG, max_cache_len=12),
    "static windows": lambda: StaticCache(config=WINDOWS, max_cache_len=12),
    "static for both": lambda: EncoderDecoderCache(StaticCache(CONFIG, 12), StaticCache(CONFIG, 12)),
}
if "fp8" not in (QuantizedCache.__doc__ or ""):
    del DYNAMIC["quantized"]  # the oldest transformers quantizes with further packages only


def numbered(rows: int, positions: range) -> Tensor:
    """Token 10 * row + place, so that each says where it comes from."""
    return 10 * torch.arange(rows)[:, None] + torch.tensor(list(positions))


def fill(cache: Cache, positions: range = range(3), rows: int = 2) -> None:
    """Writes the same numbers as keys, as values and as the head cache's tokens."""
    ids = numbered(rows, positions)
    keys = ids[:, None, :, None].expand(-1, 2, -1, 2).float().contiguous()
    for layer in range(2):
        decoder_cache(cache).update(keys, keys, layer)
    head_cache = head_cache_of(cache)
    assert head_cache is not None
    head_cache.remember(ids, torch.ones_like(ids, dtype=torch.bool), {})


def tokens(cache: Cache) -> list[list[int]]:
    """What the head cache holds, known places only."""
    head_cache = head_cache_of(cache)
    assert head_cache is not None
    return [row[row >= 0].tolist() for row in head_cache.read()["ids"]]


def keys_of(cache: Cache) -> list[list[int]]:
    """What the keys hold."""
    return decoder_cache(cache).layers[0].keys[:, 0, :, 0].long().tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [*DYNAMIC.values(), *STATIC.values()], ids=[*DYNAMIC, *STATIC])
def test_a_cache_stays_what_it_was(make: Callable[[], Cache]) -> None:
    """Of the same class, as long, as croppable and compileable, with the same layers; and no other one is touched."""
    cache, untouched = make(), make()
    kinds, layers = type(cache), list(decoder_cache(cache).layers)
    attach_head_cache(cache)
    assert type(cache) is kinds
    assert type(decoder_cache(cache)) is type(decoder_cache(untouched))
    assert decoder_cache(cache).layers == layers
    assert len(cache) == len(untouched)
    assert cache.is_compileable == untouched.is_compileable
    assert cache.is_croppable == untouched.is_croppable
    assert head_cache_of(untouched) is None
    assert "crop" not in vars(decoder_cache(untouched))


@pytest.mark.parametrize("make", DYNAMIC.values(), ids=DYNAMIC)
def test_dynamic_caches_get_a_history_that_grows(make: Callable[[], Cache]) -> None:
    assert isinstance(attach_head_cache(make()), DynamicHeadCache)


@pytest.mark.parametrize("make", STATIC.values(), ids=STATIC)
def test_static_caches_get_a_history_of_fixed_size(make: Callable[[], Cache]) -> None:
    cache = make()
    assert isinstance(attach_head_cache(cache), StaticHeadCache)
    assert not cache.is_croppable  # transformers asks this before it crops, and a static head cache cannot be


def test_only_what_stands_in_windows_needs_the_length() -> None:
    cache = StaticCache(config=WINDOWS, max_cache_len=12)
    ids = numbered(1, range(10))
    head_cache = attach_head_cache(cache, max_length=10)
    head_cache.remember(ids, torch.ones_like(ids, dtype=torch.bool), {})
    assert head_cache.recall().ids.shape[1] >= 10


@pytest.mark.parametrize("name", [name for name in DYNAMIC if name != "windows"])
def test_every_move_moves_both(name: str) -> None:
    cache = DYNAMIC[name]()
    attach_head_cache(cache)
    fill(cache)
    if isinstance(cache, EncoderDecoderCache):
        for layer in range(2):
            cache.cross_attention_cache.update(torch.zeros(2, 2, 4, 2), torch.zeros(2, 2, 4, 2), layer)
    if not isinstance(cache, QuantizedCache):  # it has no such moves
        cache.batch_repeat_interleave(2)
        assert keys_of(cache) == tokens(cache) == [[0, 1, 2], [0, 1, 2], [10, 11, 12], [10, 11, 12]]
        cache.batch_select_indices(torch.tensor([1, 2]))
        assert keys_of(cache) == tokens(cache) == [[0, 1, 2], [10, 11, 12]]
        cache.crop(-1)
        cache.crop(0)
        assert keys_of(cache) == tokens(cache) == [[0, 1], [10, 11]]
        assert getattr(cache, "cropped", 2) == 2
    cache.reorder_cache(torch.tensor([1, 0]))
    assert [row[0] for row in tokens(cache)] == [10, 0]
    if not isinstance(cache, QuantizedCache):  # reordered when they are read next
        assert keys_of(cache) == tokens(cache)
    cache.reset()
    assert head_cache_of(cache).length == kv_length(cache) == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("name", [name for name in STATIC if name != "static windows"])
def test_static_moves_move_both(name: str) -> None:
    cache = STATIC[name]()
    attach_head_cache(cache)
    fill(cache)
    cache.reorder_cache(torch.tensor([1, 1]))
    assert tokens(cache) == [[10, 11, 12]] * 2
    assert [row[:3] for row in keys_of(cache)] == [[10, 11, 12]] * 2
    cache.reset()
    assert tokens(cache) == [[], []]
    assert head_cache_of(cache).length == 0  # type: ignore[union-attr]


def pickled(cache: Any) -> Any:
    return pickle.loads(pickle.dumps(cache))


def saved(cache: Any) -> Any:
    file = io.BytesIO()
    torch.save(cache, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.few(2)
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
@pytest.mark.parametrize("name", [name for name in (*DYNAMIC, *STATIC) if name != "quantized"])  # torch pickles no fp8
def test_a_copy_moves_its_own_history(name: str, copied: Callable[[Any], Any]) -> None:
    """Also the copy of a copy, and when what was copied is gone."""
    cache = (DYNAMIC | STATIC)[name]()
    attach_head_cache(cache)
    fill(cache)
    twin = copied(copied(cache))
    assert type(twin) is type(cache)
    assert head_cache_of(twin) is not head_cache_of(cache)
    keys = decoder_cache(cache).layers[0].keys
    before = keys.clone()
    swap = torch.tensor([1, 0])
    twin.reorder_cache(swap)
    assert tokens(cache) == [[0, 1, 2], [10, 11, 12]]
    assert torch.equal(keys, before)
    del cache
    gc.collect()
    assert tokens(twin) == [[10, 11, 12], [0, 1, 2]]
    twin.reorder_cache(swap)
    assert tokens(twin) == [[0, 1, 2], [10, 11, 12]]


def test_a_shallow_copy_shares_keys_and_history() -> None:
    """As it does without a head cache: its layers are those of the original."""
    cache = DynamicCache()
    attach_head_cache(cache)
    fill(cache)
    twin = copy.copy(cache)
    twin.crop(-1)
    assert keys_of(cache) == tokens(cache) == keys_of(twin) == tokens(twin) == [[0, 1], [10, 11]]
    del cache
    with pytest.raises(RuntimeError, match="of this method no longer exists"):
        twin.crop(-1)


def test_keys_are_freed_when_the_cache_is() -> None:
    """By their count of references, without the garbage collector, which may come much later."""
    gc.disable()
    try:
        cache = new_cache(CONFIG)
        fill(cache)
        gone, keys = ref(cache), ref(cache.layers[0].keys)
        del cache
        assert gone() is None
        assert keys() is None
    finally:
        gc.enable()


def test_what_a_cache_held_before_is_unknown() -> None:
    cache = DynamicCache()
    cache.update(torch.zeros(2, 2, 5, 2), torch.zeros(2, 2, 5, 2), 0)
    head_cache = attach_head_cache(cache)
    assert head_cache.length == 5
    first = head_cache.remember(numbered(2, range(2)), torch.ones(2, 2, dtype=torch.bool), {})
    memory = head_cache.recall()
    assert first == 5
    assert memory.ids.tolist() == [[-1] * 5 + [0, 1], [-1] * 5 + [10, 11]]
    assert memory.valid.sum(1).tolist() == [2, 2]


def test_linear_attention_keeps_no_count() -> None:
    config = GPT2Config(n_layer=2, n_head=2, n_embd=4, layer_types=["linear_attention"] * 2)
    assert kv_length(DynamicCache(config=config)) is None
    assert kv_length(DynamicCache()) == 0


def test_linear_and_full_attention_in_one_cache() -> None:
    """The linear layers have neither places nor a way to be repeated; the moves that they have go through."""
    cache = DynamicCache(config=HYBRID)
    kind = type(cache)
    attach_head_cache(cache)
    keys = numbered(2, range(3))[:, None, :, None].expand(-1, 2, -1, 2).float().contiguous()
    for layer in (1, 2):
        cache.update(keys, keys, layer)
    head_cache = head_cache_of(cache)
    assert head_cache is not None
    head_cache.remember(numbered(2, range(3)), torch.ones(2, 3, dtype=torch.bool), {})
    cache.reorder_cache(torch.tensor([1, 1]))
    assert tokens(cache) == [[10, 11, 12]] * 2
    assert cache.layers[1].keys[:, 0, :, 0].tolist() == tokens(cache)
    assert type(cache) is kind


@pytest.mark.skipif("quantized" not in DYNAMIC, reason="this transformers has no backend that needs no further package")
def test_a_quantized_cache_of_the_user() -> None:
    model, ids = headed("gpt2", "cache"), prompt()
    cache = QuantizedCache("fp8", model.config.get_text_config(decoder=True))
    out = generated(model, ids, past_key_values=cache, max_new_tokens=NEW)
    assert out.past_key_values is cache
    assert type(cache) is QuantizedCache
    assert tokens(cache) == out.sequences[:, :-1].tolist()


def test_a_class_of_somebody_s_own_generates_as_any_other() -> None:
    model, ids = headed("gpt2", "softmax+mi"), prompt()
    out = generated(model, ids, past_key_values=CountingCache(), max_new_tokens=NEW, num_beams=4)
    assert type(out.past_key_values) is CountingCache
    assert_as_recomputed(model, out, {"input_ids": ids})


def test_a_method_of_its_owner_is_still_called() -> None:
    cache, cropped, positions = new_cache(CONFIG), list[int](), DynamicCache(config=CONFIG)
    keys = torch.zeros(1, 2, 5, 2)
    positions.update(keys, keys, 0)
    of_class = positions.crop

    def counted(change: int) -> None:
        cropped.append(change)
        of_class(change)

    positions.crop = counted  # type: ignore[method-assign]
    attach_head_cache(positions)
    attach_head_cache(positions)  # a second time: ours are not taken for its owner's
    positions.crop(-2)
    assert (cropped, positions.get_seq_length(), head_cache_of(positions).length) == ([-2], 3, 3)
    crop = cache.crop
    del cache
    with pytest.raises(RuntimeError, match="of this method no longer exists"):
        crop(-1)
