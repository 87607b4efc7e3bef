"""Static caches, prefill in chunks, caches given by the user, and a second call that goes on from a cache."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from peft import PrefixTuningConfig, get_peft_model
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import StaticCache

from nextword.model import generation
from nextword.model.head_cache.head_cache import StaticHeadCache
from nextword.model.head_cache.kv_cache import head_cache_of
from tests.helpers.generating_models import (
    DECODERS,
    ENCODER_DECODERS,
    NEW,
    backbone,
    crossed,
    headed,
    left_padded,
    pairs,
    prompt,
)
from tests.helpers.recomputation import TOLERANCE, assert_as_recomputed, generated, step_log_probs

ALL = {**DECODERS, **ENCODER_DECODERS}
MODES: dict[str, dict[str, Any]] = {"greedy": {}, "sampling": {"do_sample": True}, "beams": {"num_beams": 4}}


def decoder_config(model: Any) -> Any:
    return model.config.get_text_config(decoder=True)


def user_cache(model: Any, *, lazy: bool) -> Any:
    """A cache as a user makes it; a lazy one does not know its layers yet."""

    def one() -> DynamicCache:
        return DynamicCache() if lazy else DynamicCache(config=decoder_config(model))

    return EncoderDecoderCache(one(), one()) if model.config.is_encoder_decoder else one()


def continued(model: Any, ids: Tensor, sequences: Tensor, past: Any, mask: Tensor | None = None) -> Any:
    """A second call with the whole text so far and the cache of what was read of it."""
    if not model.config.is_encoder_decoder:
        # given, because a generated padding token would be taken for padding otherwise
        mask = torch.ones_like(ids) if mask is None else mask
        mask = torch.cat([mask, mask.new_ones(len(mask), sequences.shape[1] - mask.shape[1])], 1)
        return generated(model, sequences, attention_mask=mask, past_key_values=past, max_new_tokens=NEW)
    # without the decoder's mask, transformers would feed the whole prefix once more
    return generated(
        model,
        ids,
        decoder_input_ids=sequences,
        decoder_attention_mask=torch.ones_like(sequences),
        past_key_values=past,
        max_new_tokens=NEW,
    )


@pytest.mark.few(5)
@pytest.mark.parametrize(("family", "head", "mode"), crossed(pairs(ALL, remembering=True), MODES))
def test_static_cache(family: str, head: str, mode: dict[str, Any]) -> None:
    model, ids = headed(family, head), prompt()
    static = generated(model, ids, max_new_tokens=NEW, cache_implementation="static", **mode)
    plain = generated(model, ids, max_new_tokens=NEW, **mode)
    if model.next_word_head.remembers:
        assert isinstance(head_cache_of(static.past_key_values), StaticHeadCache)
    assert static.sequences.tolist() == plain.sequences.tolist()
    assert_as_recomputed(model, static, {"input_ids": ids})


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("family", "head", "mode"), crossed(pairs(DECODERS, remembering=True), {"greedy": {}, "beams": {"num_beams": 4}})
)
def test_static_cache_with_left_padding(family: str, head: str, mode: dict[str, Any]) -> None:
    model = headed(family, head)
    ids, mask = left_padded(prompt(3), [0, 4, 7])
    inputs = {"input_ids": ids, "attention_mask": mask}
    out = generated(model, **inputs, max_new_tokens=NEW, cache_implementation="static", **mode)
    assert_as_recomputed(model, out, inputs)


PREFILLS = {
    f"{name}-{implementation}": (padding, implementation)
    for name, padding in {"plain": [0, 0, 0], "left-padded": [0, 4, 7]}.items()
    for implementation in ("dynamic", "static")
}


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head", "prefill"), crossed(pairs(DECODERS), PREFILLS))
def test_prefill_in_chunks(family: str, head: str, prefill: tuple[list[int], str]) -> None:
    """Chunks of three, so that the second prompt's first chunk is padding only."""
    (padding, implementation), model = prefill, headed(family, head)
    ids, mask = left_padded(prompt(3), padding)
    inputs = {"input_ids": ids, "attention_mask": mask}
    settings = {"max_new_tokens": NEW, "prefill_chunk_size": 3, "cache_implementation": implementation}
    out = generated(model, **inputs, **settings)
    assert out.sequences.tolist() == model.generate(**inputs, max_new_tokens=NEW).tolist()
    assert_as_recomputed(model, out, inputs)


@pytest.mark.few(5)
@pytest.mark.parametrize(("family", "head"), pairs(ENCODER_DECODERS))
def test_decoder_prompt_in_chunks(family: str, head: str) -> None:
    model, ids, start = headed(family, head), prompt(), prompt(2, 7, seed=4)
    out = generated(model, ids, decoder_input_ids=start, max_new_tokens=NEW, prefill_chunk_size=3)
    assert out.sequences.tolist() == model.generate(ids, decoder_input_ids=start, max_new_tokens=NEW).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids})


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "head"), pairs(ALL))
def test_second_call_goes_on(family: str, head: str) -> None:
    model, ids = headed(family, head), prompt()
    first = generated(model, ids, max_new_tokens=NEW)
    second = continued(model, ids, first.sequences, first.past_key_values)
    assert second.sequences.tolist() == model.generate(ids, max_new_tokens=2 * NEW).tolist()
    assert_as_recomputed(model, second, {"input_ids": ids})


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head"), pairs(ALL, remembering=True))
def test_second_call_reads_new_words(family: str, head: str) -> None:
    """A dialogue: the user's next words are appended to what was generated, here to three samples of each prompt."""
    model, ids = headed(family, head), prompt()
    first = generated(model, ids, max_new_tokens=NEW, do_sample=True, num_return_sequences=3)
    text = torch.cat([first.sequences, prompt(len(first.sequences), 5, seed=8)], 1)
    source = ids.repeat_interleave(3, 0)
    second = continued(model, source, text, first.past_key_values)
    assert_as_recomputed(model, second, {"input_ids": source})


@pytest.mark.few(6)
@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_second_call_after_left_padding(family: str, head: str) -> None:
    model = headed(family, head)
    ids, mask = left_padded(prompt(3), [0, 4, 7])
    first = generated(model, ids, attention_mask=mask, max_new_tokens=NEW)
    second = continued(model, ids, first.sequences, first.past_key_values, mask)
    assert_as_recomputed(model, second, {"input_ids": ids, "attention_mask": mask})


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("family", "head", "lazy"), crossed(pairs(ALL, remembering=True), {"lazy": True, "with config": False})
)
def test_cache_of_the_user(family: str, head: str, lazy: bool) -> None:
    model, ids = headed(family, head), prompt()
    cache = user_cache(model, lazy=lazy)
    out = generated(model, ids, past_key_values=cache, max_new_tokens=NEW, num_beams=4)
    assert out.past_key_values is cache
    assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW, num_beams=4).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids})


COPIES: dict[str, dict[str, Any]] = {
    "beams": {"num_beams": 3},
    "samples": {"num_return_sequences": 3, "do_sample": True},
    "best beams": {"num_beams": 3, "num_return_sequences": 2},
}


@contextmanager
def rows_of_passes(model: Any) -> Iterator[list[int]]:
    """The number of rows of each pass in this block."""
    rows: list[int] = []
    hook = model.get_input_embeddings().register_forward_hook(lambda _, given, __: rows.append(len(given[0])))
    yield rows
    hook.remove()


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head", "mode"), crossed(pairs(DECODERS), COPIES))
def test_a_prompt_is_read_once_for_its_copies(
    family: str, head: str, mode: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = headed(family, head)
    ids, mask = left_padded(prompt(3), [0, 4, 7])
    settings = {"attention_mask": mask, "max_new_tokens": NEW, "min_new_tokens": NEW, **mode}
    with rows_of_passes(model) as rows:
        out = generated(model, ids, **settings)
    assert rows[:2] == [3, 9]
    assert_as_recomputed(model, out, {"input_ids": ids, "attention_mask": mask})
    if "num_beams" in mode:
        monkeypatch.setattr(generation, "reads_prompts_once", lambda *_: False)
        with rows_of_passes(model) as rows:
            each = generated(model, ids, **settings)
        assert rows[:2] == [9, 9]
        assert out.sequences.tolist() == each.sequences.tolist()


def emptied_cache(model: Any, ids: Tensor) -> dict[str, Any]:
    """A cache that had the rows of three beams, and lost their positions."""
    cache = DynamicCache()
    model.generate(ids, past_key_values=cache, max_new_tokens=NEW, num_beams=3)
    cache.crop(-cache.get_seq_length())
    return {"past_key_values": cache, "num_beams": 3}


def unused_cache(model: Any, ids: Tensor) -> dict[str, Any]:
    return {"past_key_values": DynamicCache(), "use_cache": False, "num_beams": 3}


EACH: dict[str, tuple[str, Any]] = {
    "decoupled decoding": ("f2", lambda model, ids: {**COPIES["samples"], "decoupled": True}),
    "draft": ("cache", lambda model, ids: {**COPIES["samples"], "draft": "prompt"}),
    "emptied cache": ("cache", emptied_cache),
    "unused cache": ("softmax", unused_cache),
}


@pytest.mark.parametrize(("head", "settings"), EACH.values(), ids=EACH)
def test_what_belongs_to_a_copy_is_computed_for_each(head: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids, texts = headed("gpt2", head), prompt(), []
    for once in (generation.reads_prompts_once, lambda *_: False):
        monkeypatch.setattr(generation, "reads_prompts_once", once)
        given = settings(model, ids)
        torch.manual_seed(5)
        texts.append(model.generate(ids, max_new_tokens=NEW, **given).tolist())
    assert texts[0] == texts[1]


def test_prefix_tuning_has_a_cache_of_its_own() -> None:
    model = headed("gpt2", "softmax")
    peft = get_peft_model(model, PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    found = peft.generate(input_ids=prompt(), attention_mask=torch.ones_like(prompt()), max_new_tokens=NEW, num_beams=3)
    assert found.shape == (len(prompt()), prompt().shape[1] + NEW)


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_static_cache_of_the_user(family: str, head: str) -> None:
    """Filled, continued by a second call, emptied and filled again. Mistral's holds windows only."""
    model, ids = headed(family, head), prompt()
    cache = StaticCache(config=decoder_config(model), max_cache_len=40)
    first = generated(model, ids, past_key_values=cache, max_new_tokens=NEW)
    assert_as_recomputed(model, first, {"input_ids": ids})
    assert_as_recomputed(model, continued(model, ids, first.sequences, cache), {"input_ids": ids})
    cache.reset()
    again = generated(model, prompt(seed=4), past_key_values=cache, max_new_tokens=NEW)
    assert_as_recomputed(model, again, {"input_ids": prompt(seed=4)})


def pickled(cache: Any) -> Any:
    return pickle.loads(pickle.dumps(cache))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("family", "head", "copied"),
    crossed(pairs(DECODERS, remembering=True), {"deepcopy": copy.deepcopy, "pickled": pickled}),
)
def test_prompt_cache_used_twice(family: str, head: str, copied: Any) -> None:
    """One prompt, read once; its cache is copied for each of two questions."""
    model, ids = headed(family, head), prompt(1)
    cache = DynamicCache(config=decoder_config(model))
    with torch.no_grad():
        model(ids, past_key_values=cache)
    for seed in (8, 9):
        text = torch.cat([ids, prompt(1, 4, seed=seed)], 1)
        out = generated(model, text, past_key_values=copied(cache), max_new_tokens=NEW)
        assert out.sequences.tolist() == model.generate(text, max_new_tokens=NEW).tolist()
        assert_as_recomputed(model, out, {"input_ids": text})
    assert cache.get_seq_length() == head_cache_of(cache).length == ids.shape[1]


def test_copied_cache_shares_nothing() -> None:
    model, ids = headed("gpt2", "cache"), prompt(1)
    with torch.no_grad():
        cache = model(ids, use_cache=True).past_key_values
        twin = copy.deepcopy(cache)
        model(ids, past_key_values=twin)
    assert head_cache_of(cache).length == ids.shape[1]
    assert head_cache_of(twin).length == 2 * ids.shape[1]


@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_what_the_bare_backbone_read_is_unknown(family: str, head: str) -> None:
    """A cache filled without the head goes on, and the head remembers only what it saw itself."""
    model, ids = headed(family, head), prompt()
    cache = DynamicCache(config=decoder_config(model))
    with torch.no_grad():
        model.backbone(ids, past_key_values=cache)
    assert head_cache_of(cache) is None
    text = torch.cat([ids, prompt(2, 5, seed=8)], 1)
    out = generated(model, text, past_key_values=cache, max_new_tokens=NEW)
    total = step_log_probs(out).exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), rtol=0, atol=TOLERANCE)


def test_bare_reading_is_forgotten_by_the_cache_head_only() -> None:
    """Of an unseen prefix nothing is stored; of the rest the same as always, the prefix itself being all there is."""
    model, ids = headed("gpt2", "cache"), prompt(1)
    cache = DynamicCache(config=decoder_config(model))
    with torch.no_grad():
        model.backbone(ids[:, :6], past_key_values=cache)
        seen = model.distribution(ids[:, 6:], past_key_values=cache)
    stored = seen.stored["cache"]
    assert stored.visible.sum(1).tolist() == [0, 1, 2]
    assert model.distribution(ids).stored["cache"].visible.sum(1).tolist() == list(range(9))


def test_plain_softmax_leaves_caches_alone() -> None:
    model, ids = headed("gpt2", "softmax"), prompt()
    cache = DynamicCache(config=decoder_config(model))
    generated(model, ids, past_key_values=cache, max_new_tokens=NEW)
    assert type(cache) is DynamicCache


def test_offloaded_cache_needs_an_accelerator() -> None:
    """As without a head: transformers itself asks for a stream of the accelerator."""
    if torch.accelerator.is_available():
        pytest.skip("runs on this machine")
    for model in (backbone("gpt2"), headed("gpt2", "cache")):
        with pytest.raises(Exception, match=r"(?i)accelerator|cuda|stream"):
            model.generate(prompt(), max_new_tokens=2, cache_implementation="offloaded")
