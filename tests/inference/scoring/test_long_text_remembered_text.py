"""What is written on after a text that the KV cache does not hold, and with a memory that forgets its oldest places."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM
from transformers.cache_utils import StaticCache

import nextword as nw
from nextword.inference.scoring.long_text import remember
from nextword.model.head_cache.kv_cache import LongMemory, head_cache_of

V = 40
IDS = torch.randint(1, V, (120,), generator=torch.Generator().manual_seed(2))


def gpt2(
    head: str = "cache:temperature=0.5,weight=none,long=30", positions: int = 400, *, reads_context: bool = True
) -> Any:
    torch.manual_seed(0)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": V, "n_positions": positions}
    bare = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=None, initializer_range=0.6))
    if not reads_context:
        bare.transformer.wpe.weight.data.zero_()
        bare.transformer.h[0].attn.c_proj.weight.data.zero_()
    return nw.attach(bare.double().eval(), head)


def mistral() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = MistralConfig(
        vocab_size=V, **sizes, num_key_value_heads=2, sliding_window=7, initializer_range=0.6, bos_token_id=0,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return nw.attach(MistralForCausalLM(config).double().eval(), "cache:temperature=0.5,weight=none,long=30")


@torch.no_grad()
def most_probable(model: Any, ids: Tensor) -> Tensor:
    return model.distribution(ids[None]).log_probs().argmax(-1)


@pytest.mark.slow
@pytest.mark.parametrize("make", [gpt2, mistral])
def test_a_long_text_is_written_as_one_pass_says_while_old_places_are_forgotten(make: Any) -> None:
    model = make()
    written = model.generate(IDS[None, :20], max_new_tokens=230, do_sample=False, pad_token_id=0)[0]
    assert len(written.unique()) > 5
    assert written[20:].tolist() == most_probable(model, written)[19:-1].tolist()


@pytest.mark.slow
def test_no_more_is_kept_than_is_looked_back_over() -> None:
    model = gpt2()
    out = model.generate(
        IDS[None, :20], max_new_tokens=230, do_sample=False, pad_token_id=0, return_dict_in_generate=True
    )
    head_cache: Any = head_cache_of(out.past_key_values)
    assert head_cache.length == 249
    assert head_cache.recall().ids.shape[1] <= 30 + 64


@pytest.mark.slow
def test_drafts_and_beams_write_the_same_over_a_memory_that_forgets() -> None:
    model = gpt2()
    asked = {"max_new_tokens": 150, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(IDS[None, :20], **asked)
    assert torch.equal(model.generate(IDS[None, :20], draft="prompt", **asked), plain)
    unbounded = gpt2("cache:temperature=0.5,weight=none,long=100000")
    beams = [one.generate(IDS[None, :20], num_beams=3, **asked | {"max_new_tokens": 8}) for one in (model, unbounded)]
    assert beams[0].shape == beams[1].shape == (1, 28)


@pytest.mark.few(1)
@pytest.mark.parametrize("rows", [1, 3])
def test_what_is_remembered_is_seen_as_if_it_stood_in_the_cache(rows: int) -> None:
    model = gpt2("cache:temperature=0.5,weight=none,long=100", reads_context=False)
    asked = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    text = torch.cat([torch.zeros(1, dtype=torch.long), IDS])
    whole = model.generate(text[None], **asked)[0, len(text) :]
    cache = remember(model, text[:-10], window=32, stride=7)
    short = text[None, -10:].repeat(rows, 1)
    written = model.generate(short, past_key_values=cache, **asked)
    assert written.shape == (rows, 30)
    assert all(row[10:].tolist() == whole.tolist() for row in written)
    alone = model.generate(short, **asked)
    assert alone[0, 10:].tolist() != whole.tolist()


def test_a_model_of_few_positions_remembers_a_text_that_is_longer() -> None:
    model = gpt2("cache:temperature=0.5,weight=none,long=100", positions=16)
    cache = remember(model, IDS)
    written = model.generate(IDS[None, :4], past_key_values=cache, max_new_tokens=8, pad_token_id=0)
    assert written.shape == (1, 12)
    assert head_cache_of(cache).recall().ids.shape[1] > 100


def test_a_long_memory_goes_with_dynamic_caches() -> None:
    model = gpt2()
    cache = StaticCache(config=model.config.get_text_config(), max_cache_len=40)
    with pytest.raises(ValueError, match=r"memory:.*KV cache"):
        model(IDS[None], memory=LongMemory(), past_key_values=cache)


def test_a_text_of_one_token_and_bad_input() -> None:
    assert head_cache_of(remember(gpt2(), IDS[:1])).recall().ids.tolist() == [[int(IDS[0])]]
    with pytest.raises(ValueError, match=r"model:.*back beyond"):
        remember(gpt2("cache"), IDS)
    with pytest.raises(ValueError, match="window: must be at most 400"):
        remember(gpt2(), IDS, window=401)
