"""Model cards: what the Hub reads of them, and what readers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import nextword as nw
from nextword.model.card import CardData, CardFacts, CardResult, card_text
from nextword.results.records import MetricValue
from tests.helpers.conditioned_models import conditioned
from tests.helpers.families import tiny

WIKITEXT = CardData(name="WikiText-2", hub_name="Salesforce/wikitext", note="training, 2.1 million tokens")
FACTS = CardFacts(
    title="wikitext-cache",
    base_model="openai-community/gpt2",
    data=(WIKITEXT, CardData(name="notes.txt")),
    language=("en",),
    license="apache-2.0",
    command="nextword train --note '```'",
    settings={"learning_rate": 1e-4},
    results=(
        CardResult(
            metric="perplexity",
            title="Perplexity | per token",
            data=WIKITEXT,
            measured=MetricValue(value=23.456, unit="per token", n=12345, low=22.9, high=24.1),
        ),
        CardResult(
            metric="rep", data=WIKITEXT, split="validation", measured=MetricValue(value=0.5, unit="fraction", n=3)
        ),
    ),
    checks=("normalisation: holds",),
)


@pytest.fixture(scope="module")
def config() -> Any:
    return nw.attach(tiny("gpt2"), "cache:published", "histalign").config


def test_what_the_hub_reads(config: Any) -> None:
    data = ModelCard(card_text(config, FACTS, "folder")).data
    assert data.to_dict() | {"model-index": None} == {
        "base_model": "openai-community/gpt2",
        "datasets": ["Salesforce/wikitext"],
        "language": ["en"],
        "library_name": "transformers",
        "license": "apache-2.0",
        "pipeline_tag": "text-generation",
        "tags": ["nextword", "cache", "histalign"],
        "model-index": None,
    }
    found = [(r.dataset_type, r.dataset_split, r.metric_type, r.metric_value) for r in data.eval_results]
    assert found == [
        ("Salesforce/wikitext", "test", "perplexity", 23.456),
        ("Salesforce/wikitext", "validation", "rep", 0.5),
    ]


def test_what_readers_are_told(config: Any) -> None:
    text = ModelCard(card_text(config, FACTS, "folder")).text
    for line in (
        "# wikitext-cache",
        "`openai-community/gpt2` with a head of nextword, in short `cache:published/histalign`:",
        "- Head `cache`: The softmax mixed with stored tokens, which are scored by the similarity of states; no new "
        "parameters.",
        "- Objective `histalign`: Token loss plus a ranking loss over the cache entries.",
        'model = nw.load("wikitext-cache")',
        'model = AutoModelForCausalLM.from_pretrained("wikitext-cache", trust_remote_code=True)',
        r"| Perplexity \| per token | [WikiText-2](https://huggingface.co/datasets/Salesforce/wikitext), test "
        "| 23.46 | 22.9 to 24.1 | per token | 12,345 |",
        "| rep | [WikiText-2](https://huggingface.co/datasets/Salesforce/wikitext), validation "
        "| 0.5 |  | fraction | 3 |",
        "normalisation: holds",
        "- [WikiText-2](https://huggingface.co/datasets/Salesforce/wikitext): training, 2.1 million tokens",
        "- notes.txt",
        "````console\nnextword train --note '```'\n````",
        '  "learning_rate": 0.0001',
    ):
        assert f"\n{line}\n" in text, line


def test_modifiers_are_told_by_their_letters() -> None:
    text = card_text(nw.attach(tiny("gpt2"), "softmax+cr:3,5+mi:1x2").config, CardFacts(), "m")
    for line in (
        "- With `+cr:3,5`: Context: words that occurred before are scored by a query of their own. "
        "Reranker: the K best tokens are scored again by a query of their own.",
        "- With `+mi:1x2`: Multiple inputs: states of several layers and positions are read.",
    ):
        assert f"\n{line}\n" in text, line
    assert "- With" not in card_text(nw.attach(tiny("gpt2"), "softmax").config, CardFacts(), "m")


def test_nothing_is_said_of_what_is_not_known(config: Any) -> None:
    card = ModelCard(card_text(config, CardFacts(), "folder"))
    assert card.data.to_dict().keys() == {"library_name", "pipeline_tag", "tags"}
    for heading in ("measures", "checker", "None"):
        assert heading not in card.text


def test_an_encoder_decoder_model_and_a_conditioned_one() -> None:
    seq2seq = card_text(nw.attach(tiny("t5"), "cache").config, CardFacts(), "m")
    assert "AutoModelForSeq2SeqLM" in seq2seq
    assert "encoder_tokenizer" not in seq2seq
    steered = ModelCard(card_text(conditioned(tiny("gpt2"), "cache", "lmh").config, CardFacts(), "m"))
    assert "- Conditioner `lmh`: Trains the output layer, which reads" in steered.text
    assert "encoder_tokenizer" in steered.text
    assert steered.data.tags == ["nextword", "cache", "mle", "lmh"]


def test_a_folder_is_no_name_on_the_hub(config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "base").mkdir(parents=True)
    for base in ("runs/base", str(tmp_path / "runs"), "../elsewhere"):
        assert ModelCard(card_text(config, CardFacts(base_model=base), "m")).data.base_model is None
