"""Every head inside vLLM gives what ``generate`` gives to each request alone: ``make test-vllm``."""

from __future__ import annotations

import gc
import math
import os
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

import nextword as nw
from tests.helpers.counted import counts_file

pytestmark = pytest.mark.vllm

VOCABULARY, NEW, LONGEST = 90, 8, 256
_ROTARY = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": LONGEST,
    "pad_token_id": None, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip
CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**_ROTARY),
    "qwen2": lambda: Qwen2Config(**_ROTARY, tie_word_embeddings=True),
    "qwen3": lambda: Qwen3Config(**_ROTARY, head_dim=32),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=3, n_head=2, n_positions=LONGEST, bos_token_id=1, eos_token_id=None
    ),
}
HEADS: dict[str, Any] = {
    "softmax": "softmax",
    "softmax+proj": "softmax+proj",
    "softmax+mi:2x3": "softmax+mi:2x3",
    "mos:2": "mos:2",
    "sigsoftmax": "sigsoftmax",
    "softmax+r:5": "softmax+r:5",
    "softmax+c": "softmax+c",
    "softmax+p": "softmax+p",
    "softmax+cpr:3,8+mi": "softmax+cpr:3,8+mi",
    "cache": {"head": "cache", "temperature": 0.5},
    "pg": "pg",
    "ps+mi": "ps+mi",
    "copynet": "copynet",
    "f2": {"head": "f2", "counts": counts_file(), "decoupled": False},
}
PAIRS = [("llama", head) for head in HEADS] + [
    ("gpt2", "cache"), ("gpt2", "softmax+cpr:3,8+mi"), ("qwen2", "pg"), ("qwen3", "softmax+cpr:3,8+mi"),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def vllm():
    """vLLM on the CPU, in this process."""
    found = pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm makes an environment with it")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        yield found


def saved(folder, family, head):
    """A random model whose weights are so wide that its distributions differ, saved; and the model."""
    torch.manual_seed(3)
    backbone = AutoModelForCausalLM.from_config(CONFIGS[family]())
    model = nw.attach(backbone, HEADS.get(head, head)).eval()
    generator = torch.Generator().manual_seed(5)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            # a score of local embeddings is a product of two projections
            scale = 0.2 if "local" in name else 0.6 if "next_word_head" in name else 2.0
            weight.data.normal_(std=scale / math.sqrt(weight.shape[-1]), generator=generator)
    model.save_pretrained(folder)
    return model


@pytest.fixture
def engine(vllm):
    """Makes an engine, and ends it after the test."""
    made = []

    def make(folder, **settings):
        defaults = {"enforce_eager": True, "dtype": "float32", "max_model_len": LONGEST, "skip_tokenizer_init": True}
        made.append(vllm.LLM(str(folder), **defaults | settings))
        return made[-1]

    yield make
    made.clear()
    gc.collect()
    from vllm.distributed import cleanup_dist_env_and_memory

    cleanup_dist_env_and_memory()


def prompts(count, longest=100, seed=0):
    """Prompts of mixed lengths, a third of which begin alike."""
    generator = torch.Generator().manual_seed(seed)
    shared = torch.randint(2, VOCABULARY, (longest // 2,), generator=generator).tolist()
    made = []
    for number in range(count):
        length = int(torch.randint(1, longest // 2, (), generator=generator))
        own = torch.randint(2, VOCABULARY, (length,), generator=generator).tolist()
        made.append(shared + own if number % 3 == 0 else own)
    return made


def answers(vllm, engine, asked, **settings):
    """What the engine gives to greedy requests."""
    defaults = {
        "temperature": 0.0, "max_tokens": NEW, "logprobs": 3, "prompt_logprobs": 1, "detokenize": False,
        "ignore_eos": True,
    }  # fmt: skip
    sampling = vllm.SamplingParams(**defaults | settings)
    return engine.generate([{"prompt_token_ids": ids} for ids in asked], sampling, use_tqdm=False)


@torch.no_grad()
def expect_as_alone(model, asked, given):
    """Greedy tokens are those of ``generate``; log-probabilities of prompt and tokens those of a forward pass."""
    for ids, answer in zip(asked, given, strict=True):
        [output] = answer.outputs
        text = torch.tensor([ids])
        alone = model.generate(
            text, attention_mask=torch.ones_like(text), max_new_tokens=NEW, do_sample=False, pad_token_id=0
        )
        assert list(output.token_ids) == alone[0, len(ids) :].tolist()
        expected = model(input_ids=torch.tensor([ids + list(output.token_ids)])).logits[0].log_softmax(-1)
        for place, listed in enumerate([*(answer.prompt_logprobs or [None] * len(ids)), *output.logprobs]):
            for token, one in (listed or {}).items():
                assert one.logprob == pytest.approx(expected[place - 1, token].item(), abs=1e-4)


@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_tokens_and_log_probabilities_of_each_request_alone(vllm, engine, tmp_path, family, head):
    model = saved(tmp_path, family, head)
    asked = prompts(12)
    expect_as_alone(model, asked, answers(vllm, engine(tmp_path), asked))


@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,8+mi", "pg"])
def test_many_requests_in_few_blocks(vllm, engine, tmp_path, head):
    """Prompts come in chunks, beginnings are shared, and requests are put aside and computed again."""
    model = saved(tmp_path, "llama", head)
    small = engine(
        tmp_path, num_gpu_blocks_override=10, block_size=32, max_num_batched_tokens=64, max_num_seqs=16,
        enable_prefix_caching=True, enable_chunked_prefill=True, disable_log_stats=False,
    )  # fmt: skip
    asked = prompts(200)
    expect_as_alone(model, asked, answers(vllm, small, asked, prompt_logprobs=None))
    counted = {metric.name: metric for metric in small.get_metrics()}
    assert counted["vllm:num_preemptions"].value > 0
    # with prompt_logprobs vLLM shares nothing, so they are asked for apart
    assert counted["vllm:prefix_cache_hits"].value > 0
    expect_as_alone(model, asked[:20], answers(vllm, small, asked[:20]))


def test_samples_are_drawn_from_the_head(vllm, engine, tmp_path):
    model = saved(tmp_path, "llama", "cache")
    ids = prompts(1)[0]
    [answer] = answers(vllm, engine(tmp_path), [ids], temperature=1.0, max_tokens=1, n=2000, prompt_logprobs=None)
    with torch.no_grad():
        probabilities = model(input_ids=torch.tensor([ids])).logits[0, -1].softmax(-1)
    drawn = torch.bincount(torch.tensor([one.token_ids[0] for one in answer.outputs]), minlength=VOCABULARY)
    expected = 2000 * probabilities
    often = expected > 20
    assert often.sum() >= 3
    assert ((drawn - expected).abs() / (expected * (1 - probabilities)).sqrt())[often].max() < 4


@pytest.mark.parametrize(
    ("head", "settings", "message"),
    [
        ("cache", {"enable_prompt_embeds": True}, "enable_prompt_embeds: must be off with head 'cache"),
    ],
)
def test_what_cannot_be_served_is_refused(vllm, engine, tmp_path, head, settings, message):
    saved(tmp_path, "llama", head)
    with pytest.raises(Exception, match=message):
        engine(tmp_path, **settings)


def test_the_plug_in_may_be_called_twice():
    from nextword.serving.vllm.plugin import register

    register()
    register()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
