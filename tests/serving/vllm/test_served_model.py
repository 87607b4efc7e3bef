"""Every head inside vLLM gives what ``generate`` gives to each request alone: ``make test-vllm``."""

from __future__ import annotations

import openai
import pytest
import torch
from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from nextword.inference.datastore import build_datastore
from nextword.inference.scoring.opened_model import open_model
from tests.helpers.killed_trainings import SMALL, sentences
from tests.helpers.running_server import running
from tests.helpers.served_by_vllm import (
    HEADS,
    NEW,
    VOCABULARY,
    answers,
    expect_as_alone,
    expect_log_probs,
    prompts,
    saved,
    written_alone,
)
from tests.helpers.small_datastores import SETTINGS, saved_model, texts, written
from tests.helpers.word_models import word_tokenizer

pytestmark = pytest.mark.vllm

PAIRS = [("llama", head) for head in HEADS] + [
    ("gpt2", "cache"), ("gpt2", "softmax+cpr:3,8+mi"), ("qwen2", "pg"), ("qwen3", "softmax+cpr:3,8+mi"),
]  # fmt: skip


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


@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,8+mi"])
def test_several_answers_to_a_prompt(vllm, engine, tmp_path, head):
    """They share the memory of the prompt and go on in different ways."""
    model = saved(tmp_path, "llama", head)
    own = engine(tmp_path, block_size=32, enable_prefix_caching=True)
    asked = [ids for ids in prompts(6) if len(ids) > 40]
    for answer in answers(vllm, own, asked, temperature=1.0, n=4, seed=0, prompt_logprobs=None):
        assert len({tuple(output.token_ids) for output in answer.outputs}) > 1
        for output in answer.outputs:
            assert len(output.token_ids) == NEW
            expect_log_probs(model, answer.prompt_token_ids, [None] * len(answer.prompt_token_ids), output)
    # several greedy answers, which vLLM refuses at temperature 0
    for ids, answer in zip(asked, answers(vllm, own, asked, temperature=1.0, top_k=1, n=3), strict=True):
        assert [list(output.token_ids) for output in answer.outputs] == 3 * [written_alone(model, ids)]


@pytest.mark.parametrize("settings", ["overlap=1", "overlap=1,mix=joint,below=cache"])
def test_retrieval_from_a_datastore(vllm, engine, tmp_path, settings):
    """Among others after the beginnings of stored texts, whose own places are left out."""
    path, store = saved_model(tmp_path / "model", n_embd=64), tmp_path / "store"
    build_datastore(path, written(tmp_path / "data.jsonl", texts()), store, SETTINGS)
    model = nw.load(path, f"knn:store={store},k=8,weight=0.5,{settings}")
    model.save_pretrained(tmp_path / "knn")
    stored = [word_tokenizer()(text)["input_ids"] for text in texts() if text]
    asked = [ids[: 3 * place + 1] for place, ids in enumerate(stored[:5])]
    given = answers(vllm, engine(tmp_path / "knn", max_model_len=64), asked)
    expect_as_alone(model, asked, given)
    below = nw.load(path)
    with pytest.raises(AssertionError):
        expect_as_alone(below, asked, given)  # the datastore matters


TEXTS = ["The king", "the queen saw the king and the queen"]
LARGER = ["task.start.n_embd=64", "task.block=64", "task.window=64", "training.steps=20", "training.learning_rate=0.01"]
"""vLLM's attention has no narrower heads on a CPU."""


@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,8"])
def test_a_trained_folder_gives_what_nextword_serve_gives(vllm, engine, tmp_path, head):
    text, out = tmp_path / "text.txt", tmp_path / "book"
    text.write_text("\n".join(sentences(160)), encoding="utf-8")
    words = ["train", "--data", text, "--model", "small", "--head", head, "--out", out, *SMALL, *LARGER]
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output

    served = []
    with running(open_model(out, "cpu")) as server:
        client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none")
        for prompt in TEXTS:
            answer = client.completions.create(
                model="book", prompt=prompt, max_tokens=8, temperature=0, logprobs=3, extra_body={"sources": True}
            )
            served.append(answer.choices[0])

    asked = vllm.SamplingParams(max_tokens=8, temperature=0, logprobs=3)
    own = engine(out, skip_tokenizer_init=False, max_model_len=64)
    for theirs, answer in zip(served, own.generate(TEXTS, asked, use_tqdm=False), strict=True):
        [ours] = answer.outputs
        tokens = theirs.model_extra["nextword"]["tokens"]
        assert len(tokens) > 1
        assert list(ours.token_ids) == [token["id"] for token in tokens]
        assert ours.text == theirs.text
        chosen = [listed[token].logprob for listed, token in zip(ours.logprobs, ours.token_ids, strict=True)]
        assert chosen == pytest.approx(theirs.logprobs.token_logprobs, abs=1e-4)
        for listed, rivals in zip(ours.logprobs, theirs.logprobs.top_logprobs, strict=True):
            best = sorted((one.logprob for one in listed.values()), reverse=True)[:3]
            assert best == pytest.approx(sorted(rivals.values(), reverse=True), abs=1e-4)
