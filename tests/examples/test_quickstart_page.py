"""The examples of README and docs/quickstart.md run as they are, with small models where they name pretrained ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

import nextword as nw
from tests.helpers.doc_pages import ROOT, blocks
from tests.helpers.families import END, PAD, START
from tests.helpers.word_models import WORDS, word_model, word_tokenizer

pytestmark = pytest.mark.docs

(README,) = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python")
GPT2, LLAMA, T5 = blocks((ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"), "python")
TOKENS = {"vocab_size": 48, "bos_token_id": START, "eos_token_id": END, "pad_token_id": PAD}


@pytest.fixture(autouse=True)
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with the files that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    chance = random.Random(0)
    lines = [" ".join(chance.choices(WORDS[:-1], k=12)) for _ in range(40)]
    Path("book.txt").write_text("\n".join(lines * 20))
    for name in ("valid.txt", "test.txt"):
        Path(name).write_text("\n".join(line for line in lines for _ in range(3)))
    pairs = [{"source": line, "target": " ".join(line.split()[:4])} for line in lines]
    Path("pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def run(block: str, name: str, model: Any) -> dict[str, Any]:
    """What a block makes with a small model in place of the one that it names, and 2 steps in place of 500."""
    model.save_pretrained("tiny")
    word_tokenizer().save_pretrained("tiny")
    assert f'"{name}"' in block
    names: dict[str, Any] = {}
    exec(block.replace(f'"{name}"', '"tiny"').replace('"steps": 500', '"steps": 2'), names)
    return names


def test_readme(capsys: pytest.CaptureFixture[str]) -> None:
    names = run(README, "models/smollm2-135m", word_model(n_positions=64).float())
    scores = names["nw"].score({"plain": names["plain"], "cache": names["model"]}, names["tokenizer"], names["test"])
    assert scores["cache"].nll < scores["plain"].nll - 0.1
    assert "perplexity" in capsys.readouterr().out


def test_gpt2_calibrated() -> None:
    names = run(GPT2, "gpt2", word_model(n_positions=64).float())
    assert names["found"].helps
    assert names["scores"]["cache"].nll < names["scores"]["alone"].nll - 0.1
    assert names["again"].next_word_head.config == names["model"].next_word_head.config
    assert names["written"].shape[1] > names["prompt"]["input_ids"].shape[1]


def test_llama_with_lora_in_bf16() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    llama = LlamaForCausalLM(LlamaConfig(**sizes, **TOKENS, max_position_embeddings=512, num_key_value_heads=1))
    before = llama.model.embed_tokens.weight.detach().clone()
    names = run(LLAMA, "meta-llama/Llama-3.2-1B", llama)
    assert names["again"].config.spec.startswith("pg")
    assert torch.equal(names["again"].backbone.model.embed_tokens.weight, before), "adapters alone are trained"
    moved = names["again"].backbone.model.layers[0].self_attn.q_proj.weight
    assert not torch.equal(moved, llama.model.layers[0].self_attn.q_proj.weight)
    assert 1 < names["results"].evaluation.metrics["perplexity"].value < 100


def test_t5_that_copies() -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    special = {"vocab_size": 48, "pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD}
    names = run(T5, "google-t5/t5-small", T5ForConditionalGeneration(T5Config(**sizes, **special)))
    assert names["again"].config.spec.startswith("softmax+cepr:20")
    assert len(names["written"]) == 1


@pytest.mark.real
def test_gpt2s_block_with_a_real_model(real_model_folder: str) -> None:
    chapter = "The mayor of Springfield met Anna Karsavina at the old mill. Anna Karsavina had lost her violin. "
    other = "A violin was found at the mill, and the mayor of Springfield brought it back to Anna Karsavina. "
    for name, text in (("valid.txt", chapter + other), ("test.txt", other + chapter)):
        Path(name).write_text(text * 2)
    names: dict[str, Any] = {}
    exec(GPT2.replace('"gpt2")', f"{real_model_folder!r})"), names)
    found, scores = names["found"], names["scores"]
    assert found.nll <= found.nll_without
    assert scores["cache"].nll < scores["alone"].nll + 0.05
    with torch.no_grad():
        prompt = names["prompt"]["input_ids"]
        alone, again = (model.eval()(prompt).logits[0, -1].argmax() for model in (names["gpt2"], names["again"]))
    assert alone == again
    assert isinstance(names["again"], nw.NextWordForCausalLM)
