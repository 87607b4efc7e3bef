"""Continuous batching: every request gets the tokens and probabilities that ``generate`` gives it alone."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from scipy.stats import chisquare
from torch import Tensor

import nextword as nw
from nextword.functional.frequency.counts import tokenizer_fingerprint
from tests.helpers import generating_models
from tests.helpers.batched import (
    NEW,
    alone,
    assert_as_alone,
    assert_batches_as_alone,
    assert_written,
    batching,
    counted,
    greedy,
    prompts,
    single,
    written_alone,
)
from tests.helpers.doc_pages import ROOT, blocks
from tests.helpers.generating_models import DECODERS, HEADS, PAD, WINDOW
from tests.helpers.small_datastores import saved_model, small_store, texts
from tests.helpers.stored_texts import built
from tests.helpers.word_models import word_tokenizer

EVERY_HEAD = [*DECODERS["gpt2"], "sigsoftmax", "softmax+r:3", "f2 decoupled"]
LISTENING = ["cache", "softmax+cpr:3,8+mi"]
"""Streams of states, and streams of embeddings with a window before them and edits."""


def test_no_decoder_only_head_is_left_out() -> None:
    tried = {nw.heads.parse_head(HEADS[head]).head for head in EVERY_HEAD}
    assert tried | {"knn", "ngram"} == set(nw.heads.registry.names())  # these: below, with a store


@pytest.mark.slow
@pytest.mark.parametrize("head", EVERY_HEAD)
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_every_head(family: str, head: str) -> None:
    assert_batches_as_alone(family, head)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", ["overlap=0", "overlap=1", "overlap=1,mix=gate", "overlap=1,mix=joint,below=cache"]
)
def test_retrieval_from_a_datastore(settings: str, tmp_path: Path) -> None:
    """Among others after the beginnings of stored texts, whose own places are left out."""
    path, store = small_store(tmp_path)
    model = nw.load(path, f"knn:store={store},k=8,weight=0.5,{settings}")
    stored = [word_tokenizer()(text)["input_ids"] for text in texts() if text]
    asked = [*prompts()[:4], *(ids[: 3 * place + 1] for place, ids in enumerate(stored[:5]))]
    found = 0.0
    for prompt, result in zip(asked, model.generate_batch(asked, greedy(), batching()).values(), strict=True):
        assert_written(result, *written_alone(model, prompt, eos_token_id=-1))
        below = written_alone(nw.load(path), prompt, eos_token_id=-1)[1]
        found = max(found, float((torch.tensor(result.logprobs) - below).abs().max()))
    assert found > 0.1, "the datastore must matter"


@pytest.mark.slow
@pytest.mark.parametrize("below", ["softmax", "cache"])
def test_lookups_in_a_corpus(below: str, tmp_path: Path) -> None:
    pytest.importorskip("pydivsufsort")
    path = saved_model(tmp_path / "model")
    stored = [word_tokenizer()(text)["input_ids"] for text in texts() if text]
    index = built(tmp_path / "index", stored, 48, tokenizer_fingerprint(word_tokenizer()))
    model = nw.attach(nw.load(path, below), f'ngram:index="{index.folder}"')
    model.configure_head(shares=[[0.5, 0.2, 0.1, 0.1, 0.1]] * 11)
    asked = [*prompts()[:4], *(ids[: 3 * place + 1] for place, ids in enumerate(stored[:5]))]
    found = 0.0
    for prompt, result in zip(asked, model.generate_batch(asked, greedy(), batching()).values(), strict=True):
        assert_written(result, *written_alone(model, prompt, eos_token_id=-1))
        alone = written_alone(nw.load(path, below), prompt, eos_token_id=-1)[1]
        found = max(found, float((torch.tensor(result.logprobs) - alone).abs().max()))
    assert found > 0.1, "the corpus must matter"


@pytest.mark.few(1)
@pytest.mark.parametrize("head", LISTENING)
@pytest.mark.parametrize("sharing", [True, False])
def test_shared_beginnings(head: str, sharing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as counts:
        assert_batches_as_alone("gpt2", head, allow_block_sharing=sharing)
    assert (counts["shared"] > 0) == sharing
    assert not counts["put aside"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("family", "head", "sharing"),
    [("gpt2", "cache", True), ("llama", "softmax+mi", False), ("llama", "softmax+cpr:3,8+mi", True)],
)
def test_a_small_cache_puts_requests_aside(
    family: str, head: str, sharing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted(monkeypatch) as counts:
        assert_batches_as_alone(family, head, allow_block_sharing=sharing, num_blocks=9, max_batch_tokens=12)
    assert counts["put aside"] > 0


@pytest.mark.parametrize("head", LISTENING)
@pytest.mark.parametrize("sharing", [True, False])
def test_several_continuations_of_a_prompt(head: str, sharing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request goes on in three ways; what the shared part of its last block holds is copied."""
    settings = greedy()
    settings.num_return_sequences = 3  # which greedy search may not be made with; equal continuations are wanted here
    with counted(monkeypatch) as counts:
        results = single("gpt2", head).generate_batch(prompts(), settings, batching(allow_block_sharing=sharing))
    assert counts["copied"] > 0
    assert len(results) == 3 * len(prompts())
    for turn, result in enumerate(results.values()):
        assert_as_alone("gpt2", head, prompts()[turn // 3], result)


@pytest.mark.slow
@pytest.mark.parametrize("head", LISTENING)
def test_requests_join_and_leave(head: str) -> None:
    """Some begin while others are being written, are of different lengths, or are given up."""
    model, results, given = single("llama", head), {}, prompts()
    lengths = {str(place): 2 + 5 * (place % 3) for place in range(len(given))}
    with model.continuous_batching_context_manager(greedy(), continuous_batching_config=batching()) as manager:
        manager.add_request(given[0], "given up", max_new_tokens=40)
        for place, prompt in enumerate(given):
            manager.add_request(prompt, str(place), max_new_tokens=lengths[str(place)])
            if place == 3:
                manager.cancel_request("given up")
            time.sleep(0.01)
        until = time.monotonic() + 60
        while len(results) < len(given) and time.monotonic() < until:
            result = manager.get_result(timeout=1)
            if result is not None and result.request_id != "given up":
                results[result.request_id] = result
    assert {name: len(result.generated_tokens) for name, result in results.items()} == lengths
    for name, result in results.items():
        assert_as_alone("llama", head, given[int(name)], result)


def test_a_manager_that_is_kept() -> None:
    """Its cache still holds what earlier calls left."""
    model = copy.deepcopy(single("gpt2", "cache")).train()
    for _ in range(2):
        results = model.generate_batch(prompts(), greedy(), batching(), persistent_manager=True)
        for prompt, result in zip(prompts(), results.values(), strict=True):
            assert_as_alone("gpt2", "cache", prompt, result)
        assert model.training
    model.destroy_cached_continuous_batching_manager()


@pytest.mark.slow
@pytest.mark.parametrize("head", ["cache", "mos:2+mi"])
def test_layers_with_windows_among_others(head: str) -> None:
    """Slots of windows are used again; those of the layers that see the whole text are not."""
    config = hf.Gemma2Config(
        **generating_models._ROTARY, sliding_window=WINDOW, query_pre_attn_scalar=8, attn_logit_softcapping=None
    )
    torch.manual_seed(0)
    backbone = hf.AutoModelForCausalLM.from_config(config).eval()
    backbone.generation_config.pad_token_id, backbone.generation_config.eos_token_id = PAD, None
    model = nw.attach(backbone, HEADS[head])
    model.next_word_head.load_state_dict(single("gemma2", head).next_word_head.state_dict())
    results = model.generate_batch(prompts(), greedy(), batching())
    for prompt, result in zip(prompts(), results.values(), strict=True):
        ids = torch.tensor([prompt])
        written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW)
        assert result.generated_tokens == written[0, len(prompt) :].tolist()


def test_a_ruled_out_class_is_drawn_again() -> None:
    """f2 chooses a class; where none of its tokens is allowed it must choose another, as in ``generate``."""
    model, prompt = single("gpt2", "f2 decoupled"), prompts()[0]
    first = alone("gpt2", "f2 decoupled", tuple(prompt))[0][0]
    classes = model.next_word_head.table.token_class
    ruled_out = (classes == classes[first]).nonzero()[:, 0].tolist()
    results = model.generate_batch([prompt], greedy(suppress_tokens=ruled_out), batching())
    found = next(iter(results.values())).generated_tokens
    ids = torch.tensor([prompt])
    expected = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, suppress_tokens=ruled_out
    )
    assert found == expected[0, len(prompt) :].tolist()
    assert not set(found) & set(ruled_out)


@pytest.mark.slow
def test_what_the_head_lets_generate_decide() -> None:
    model = single("gpt2", "f2 decoupled")
    found = []
    for decoupled in (True, False):
        results = model.generate_batch(prompts(), greedy(), batching(), decoupled=decoupled)
        found.append([result.generated_tokens for result in results.values()])
    assert found[0] != found[1]
    assert found[1] == [alone("gpt2", "f2", tuple(prompt))[0] for prompt in prompts()]


@torch.no_grad()
def sampled_from(model: Any, prompt: list[int], settings: Any) -> Tensor:
    """The distribution that a first token is drawn from, by the processors of ``generate``."""
    ids = torch.tensor([prompt])
    distribution = model.distribution(ids)[-1:]
    processed = model._get_logits_processor(settings)
    if model.next_word_head.draw(model.next_word_head.config, sample=True) is None:
        return processed(ids, distribution.log_probs()).softmax(-1)[0]
    classes = range(distribution.classes.count)
    within = [processed(ids, distribution.within(torch.tensor([c]))).softmax(-1)[0] for c in classes]
    return distribution.log_class_probs()[0].exp() @ torch.stack(within)


@pytest.mark.few(1)
@pytest.mark.parametrize("head", ["cache", "f2 decoupled"])
def test_sampling(head: str) -> None:
    """Temperature, top-k and top-p act as in ``generate``: 800 first tokens fit their distribution."""
    model, prompt, draws = single("gpt2", head), prompts()[3], 800
    settings = greedy(max_new_tokens=1, do_sample=True, temperature=1.5, top_k=12, top_p=0.9)
    results = model.generate_batch(
        [prompt] * draws, settings, batching(num_blocks=200, max_batch_tokens=256, seed=1, return_logprobs=False)
    )
    expected = sampled_from(model, prompt, settings)
    found = torch.tensor([result.generated_tokens[0] for result in results.values()]).bincount(minlength=len(expected))
    assert not found[expected == 0].any()
    often = expected * draws >= 5
    assert often.sum() > 2
    rest = lambda numbers: torch.cat([numbers[often], numbers[~often].sum()[None]])  # noqa: E731
    counts, shares = rest(found.double()), rest(expected.double())
    kept = shares > 0
    assert chisquare(counts[kept], shares[kept] / shares[kept].sum() * draws).pvalue > 1e-3


@pytest.mark.slow
def test_the_documents_examples() -> None:
    found = blocks((ROOT / "docs" / "serving.md").read_text(encoding="utf-8"), "python")
    first, second = (block for block in found if not block.startswith("# needs"))
    names: dict[str, Any] = {}
    exec(first, names)
    exec(second, names)
    assert len(names["request"].generated_tokens) == 4
    assert {name: len(tokens) for name, tokens in names["written"].items()} == {"first": 4, "second": 20}
    alone = names["model"].eval().generate(torch.tensor([names["prompts"][1]]), max_new_tokens=20, do_sample=False)
    assert names["written"]["second"] == alone[0, 3:].tolist()
