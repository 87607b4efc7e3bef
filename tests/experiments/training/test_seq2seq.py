"""Encoder-decoder models through training and comparison."""

from __future__ import annotations

import json

import pytest
import torch
from datasets import Dataset
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    set_seed,
)

import nextword as nw
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.settings import TrainingSettings
from nextword.results.records import Results
from nextword.runtime.progress import Watcher

NAMES = ["ann", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"]
VOCABULARY = 300


@pytest.fixture(autouse=True)
def no_report(monkeypatch):
    monkeypatch.setattr(
        "nextword.experiments.comparison.all_methods._report", lambda results, folder: folder.report.write_text("drawn")
    )


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "stories.jsonl"
    rows = [
        {"text": f"{number} times {NAMES[number % 8]} met {NAMES[number % 7]} .", "gist": f"{NAMES[number % 8]} met"}
        for number in range(120)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture
def recipe(stories):
    small = {"d_model": 8, "d_ff": 8, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "steps": 2}
    return {
        "task": {
            "name": "seq2seq",
            "data": str(stories),
            "source_field": "text",
            "target_field": "gist",
            "test_share": 0.2,
            "validation_share": 0.2,
            "vocabulary": VOCABULARY,
            "frequent_words": 1,
            "tuning_pairs": 2,
            "generation": {"pairs": 4, "max_new_tokens": 3},
            "start": {**small, "batch_size": 4},
        },
        "training": {"steps": 2, "batch_size": 4, "evaluate_every": 2},
        "methods": ["softmax", {"head": "cache", "tune": True}],
    }


def tiny_t5(dropout=0.1):
    set_seed(0)
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "dropout_rate": dropout}
    config = T5Config(vocab_size=VOCABULARY, **sizes, pad_token_id=1, eos_token_id=0)
    config.decoder_start_token_id = 1
    return T5ForConditionalGeneration(config)


def tiny_bart():
    set_seed(0)
    parts = {f"{part}_{size}": 2 for part in ("encoder", "decoder") for size in ("layers", "attention_heads")}
    ffn = {"encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0}
    config = BartConfig(vocab_size=VOCABULARY, d_model=8, max_position_embeddings=256, **parts, **ffn, **special)
    model = BartForConditionalGeneration(config)
    model.generation_config.update(num_beams=4, no_repeat_ngram_size=3, max_length=56, min_length=40)
    return model


def tiny_gpt2():
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 256}
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **sizes, bos_token_id=0, eos_token_id=0))


@pytest.fixture
def saved(tmp_path, stories):
    """Saves a model with a tokenizer, as a user would have it."""

    def save(model):
        model.save_pretrained(tmp_path / "given")
        trained_tokenizer(stories.read_text(), VOCABULARY, None, "<mask>").save_pretrained(tmp_path / "given")
        return tmp_path / "given"

    return save


@pytest.mark.slow
def test_pairs_from_start_to_results(recipe, tmp_path, capfd):
    results = compare(configured(recipe), tmp_path)
    assert Results.load(tmp_path / "results.json") == results
    plain, cache = results.runs
    assert {"nll", "perplexity", "bits_per_byte", "copy_recall"} <= set(plain.evaluation.metrics)
    assert plain.evaluation.metrics["nll"].low < plain.evaluation.metrics["nll"].high
    assert set(cache.evaluation.tuned) == {"temperature", "weight"}
    assert len(plain.settings["validation_curve"]) == 1
    assert results.start["steps"] == 2
    model = nw.load(tmp_path / "trained" / "softmax-mle-seed0" / "model")
    assert type(model) is nw.NextWordForSeq2SeqLM
    assert model.generate(torch.tensor([[5, 6]]), max_new_tokens=2).shape[0] == 1
    # the measured model is the saved one
    record = json.loads((tmp_path / "runs" / "softmax-seed0" / "record.json").read_text())
    assert record["evaluation"]["metrics"]["nll"]["value"] == plain.evaluation.metrics["nll"].value
    assert "max_length" not in capfd.readouterr().err


@pytest.mark.slow
def test_an_interrupted_comparison_goes_on_to_the_same_numbers(recipe, tmp_path):
    whole = compare(configured(recipe), tmp_path / "whole")

    class Killing(Watcher):
        stages = 0

        def began(self, name, stage):
            self.stages += stage == "training"

        def advanced(self, name, fraction):
            if self.stages == 3:  # the start's, softmax's, cache's
                raise KeyboardInterrupt

    with pytest.raises(ComparisonInterrupted, match="1 of 2 runs are finished"):
        compare(configured(recipe), tmp_path / "killed", Killing())
    resumed = compare(configured(recipe), tmp_path / "killed")
    assert [run.evaluation for run in resumed.runs] == [run.evaluation for run in whole.runs]


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [tiny_t5, tiny_bart])
def test_a_pretrained_folder_is_the_start(recipe, tmp_path, saved, make, capfd):
    folder = saved(make())
    results = compare(configured(recipe, [f"start.model={folder}"]), tmp_path / "out")
    assert results.start["model"] == str(folder)
    assert all(run.evaluation.metrics["nll"].value > 0 for run in results.runs)
    assert "max_length" not in capfd.readouterr().err  # their own generation settings are set aside quietly


def test_a_decoder_only_start_is_refused(recipe, tmp_path, saved):
    folder = saved(tiny_gpt2())
    message = r"start\.model: .*given is a decoder-only model; task 'seq2seq' needs an encoder-decoder model"
    with pytest.raises(ValueError, match=message):
        compare(configured(recipe, [f"start.model={folder}"]), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".lock", "compare.json"}


@pytest.mark.parametrize("task", ["lm", "ambiguous"])
@pytest.mark.parametrize("make", [tiny_t5, tiny_bart])
def test_an_encoder_decoder_start_is_refused_elsewhere(tmp_path, saved, stories, task, make):
    settings = {"lm": {"data": str(stories)}, "ambiguous": {}}[task]
    recipe = {"task": {"name": task, **settings}, "methods": ["softmax"], "start": {"model": str(saved(make()))}}
    message = f"given is an encoder-decoder model; task '{task}' needs a decoder-only model"
    with pytest.raises(ValueError, match=message):
        compare(configured(recipe), tmp_path / "out")


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)

    def draw(low, high):
        lengths = torch.randint(low, high, (8,), generator=generator).tolist()
        return [torch.randint(3, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]

    return Dataset.from_dict({"input_ids": draw(3, 12), "labels": draw(2, 6)})


@pytest.mark.few(1)
@pytest.mark.parametrize("accumulated", [1, 4])
def test_the_loss_is_nats_per_target_token(rows, tmp_path, accumulated):
    model = nw.attach(tiny_t5(dropout=0.0), "softmax")
    nats = count = 0.0
    for row in rows:
        labels = torch.tensor([row["labels"]])
        ids = torch.tensor([row["input_ids"]])
        nats += model(input_ids=ids, labels=labels).loss.item() * labels.numel()
        count += labels.numel()
    settings = TrainingSettings(steps=1, batch_size=8 // accumulated, gradient_accumulation_steps=accumulated)
    outcome = fit(model, rows, settings, seed=0, folder=tmp_path)
    assert outcome.curve[0].loss == pytest.approx(nats / count, rel=1e-4)


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_weights(rows, tmp_path):
    settings = TrainingSettings(steps=6, batch_size=4, save_every=2, log_every=2, learning_rate=1e-2)

    def killed(fraction):
        if fraction > 0.8:
            raise KeyboardInterrupt

    whole, broken, resumed = (nw.attach(tiny_t5(), "cache") for _ in range(3))
    expected = fit(whole, rows, settings, seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(broken, rows, settings, seed=1, folder=tmp_path / "killed", progress=killed)
    outcome = fit(resumed, rows, settings, seed=1, folder=tmp_path / "killed")
    assert outcome.curve == expected.curve
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name
