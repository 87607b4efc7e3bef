"""Drafts in vLLM change no token: ``make test-vllm``."""

from __future__ import annotations

import pytest

from tests.helpers.served_by_vllm import answers, prompts, saved, written_alone

pytestmark = pytest.mark.vllm

PLACES = {"method": "custom_class", "model": "nextword.serving.vllm.copy_head_proposer.CopyHeadProposer"}
LOOKUP = {"method": "ngram", "prompt_lookup_max": 2, "prompt_lookup_min": 1}


@pytest.mark.parametrize("head", ["cache", "pg", "softmax+cpr:3,8+mi"])
def test_tokens_are_those_without_drafts(vllm, engine, tmp_path, head):
    expect_same_tokens(vllm, engine, tmp_path, head, PLACES)


@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_tokens_are_those_without_lookup(vllm, engine, tmp_path, head, monkeypatch):
    """In a process of its own: once vLLM's lookup has compiled itself, no other engine starts beside it."""
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    expect_same_tokens(vllm, engine, tmp_path, head, LOOKUP)


def expect_same_tokens(vllm, engine, folder, head, drafts):
    """Requests of mixed lengths side by side; some drafted tokens are accepted, and some are not."""
    model = saved(folder, "llama", head)
    own = engine(
        folder, speculative_config={**drafts, "num_speculative_tokens": 3}, disable_log_stats=False,
        max_num_batched_tokens=64, enable_chunked_prefill=True, max_num_seqs=16,
    )  # fmt: skip
    asked = [ids + ids for ids in prompts(24, longest=60)]
    found = [list(answer.outputs[0].token_ids) for answer in answers(vllm, own, asked, prompt_logprobs=None)]
    assert found == [written_alone(model, ids) for ids in asked]
    counted = {metric.name: metric.value for metric in own.get_metrics() if hasattr(metric, "value")}
    assert 0 < counted["vllm:spec_decode_num_accepted_tokens"] < counted["vllm:spec_decode_num_draft_tokens"]
