"""Conditioned models are saved with their encoder, come back as they were, and know another encoder from their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import nextword as nw
from nextword.conditioning.auxiliary_encoder import fingerprint
from tests.helpers.conditioned_models import CONDITIONERS, COPYING, conditioned, encoder, settings_of, texts, with_words
from tests.helpers.families import inputs, tiny

AUX = with_words(texts((7, 3, 5)))


def aux_of(model: Any) -> dict[str, torch.Tensor]:
    if model.next_word_head.reads_source:
        return AUX
    return {name: value for name, value in AUX.items() if name.startswith("aux")}


def changed_weights(folder: Path, change: Any) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", {"format": "pt"})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    conditioned(tiny("gpt2"), "softmax", "dau").save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("family", "head", "conditioner"),
    [("gpt2", "softmax", name) for name in CONDITIONERS]
    + [("gpt2", head, "bergpt") for head in ("cache", "mos:2+mi", *COPYING)]
    + [
        ("llama", "softmax", "bergpt"),
        ("qwen3", "softmax", "lmh"),
        ("opt", "pg", "prefix:3"),
        ("gemma2", "cache", "dau"),
    ],
)
@torch.no_grad()
def test_comes_back_bit_for_bit(family: str, head: str, conditioner: str, tmp_path: Path) -> None:
    model = conditioned(tiny(family), head, CONDITIONERS[conditioner])
    given = inputs(model) | aux_of(model)
    expected = model(**given).logits
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    model.save_pretrained(tmp_path)
    for loaded in (nw.load(tmp_path), AutoModelForCausalLM.from_pretrained(tmp_path)):
        assert type(loaded) is type(model)
        assert loaded.conditioner.config == model.conditioner.config
        assert not loaded.training
        assert torch.equal(loaded(**given).logits, expected)
        assert (loaded.get_input_embeddings().weight is loaded.get_output_embeddings().weight) == tied
    again = tmp_path / "again"
    nw.load(tmp_path).save_pretrained(again)
    assert torch.equal(nw.load(again)(**given).logits, expected)


@pytest.mark.parametrize("conditioner", ["lmh", "bergpt"])
@torch.no_grad()
def test_resized_model_comes_back(conditioner: str, tmp_path: Path) -> None:
    model = conditioned(tiny("gpt2"), "softmax", conditioner)
    model.resize_token_embeddings(53)
    given = inputs(model) | aux_of(model)
    expected = model(**given).logits
    assert expected.shape[-1] == 53
    model.save_pretrained(tmp_path)
    assert torch.equal(nw.load(tmp_path)(**given).logits, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float16])
def test_loaded_in_another_precision(dtype: torch.dtype, saved: Path) -> None:
    loaded = nw.load(saved, dtype=dtype)
    assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
    assert loaded(**inputs(loaded), **aux_of(loaded)).logits.isfinite().all()
    shared = encoder()
    assert nw.load(saved, encoder=shared, dtype=dtype).auxiliary_encoder is shared
    assert shared.dtype == dtype


def test_one_encoder_for_several_models(saved: Path, tmp_path: Path) -> None:
    shared = encoder()
    models = [nw.load(saved, encoder=shared), nw.load(saved, encoder=shared)]
    assert all(model.auxiliary_encoder is shared for model in models)
    given = inputs(models[0]) | aux_of(models[0])
    assert torch.equal(models[0](**given).logits, nw.load(saved)(**given).logits)
    encoder().save_pretrained(tmp_path / "encoder")
    from_folder = nw.load(saved, encoder=tmp_path / "encoder")
    assert torch.equal(from_folder(**given).logits, models[0](**given).logits)
    assert not from_folder.auxiliary_encoder.training


def test_another_encoder_is_refused(saved: Path) -> None:
    with pytest.raises(ValueError, match="'BertModel'"):
        nw.load(saved, encoder=encoder(seed=2))
    with pytest.raises(ValueError, match="'BertModel'"):
        nw.load(saved, encoder=encoder(14))
    with pytest.raises(ValueError, match="encoder: no such folder"):
        nw.load(saved, encoder="./nowhere")


def test_tampered_weights_of_the_encoder_are_refused(saved: Path) -> None:
    key = "auxiliary_encoder.encoder.layer.1.output.dense.weight"
    changed_weights(saved, lambda weights: weights | {key: weights[key] + 0.1})
    with pytest.raises(ValueError, match=f"{saved}: the auxiliary encoder: its weights are not those of"):
        nw.load(saved)
    changed_weights(saved, lambda weights: {name: value for name, value in weights.items() if name != key})
    with pytest.raises(ValueError, match="auxiliary"):
        nw.load(saved)
    assert nw.load(saved, encoder=encoder())  # the right one takes its place


@pytest.mark.parametrize("head", [None, "cache"])
def test_weights_of_the_conditioner_must_be_there(saved: Path, head: str | None) -> None:
    def without(weights: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in weights.items() if not name.startswith("conditioner.")}

    changed_weights(saved, without)
    with pytest.raises(ValueError, match="conditioner"):
        nw.load(saved, head)


def test_weights_of_another_conditioner(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["conditioner"] = {"conditioner": "prefix"}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"the checkpoint is damaged .*ignore_mismatched_sizes"):
        nw.load(saved)
    config["conditioner"] = {"conditioner": "bergpt"}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="'bergpt'"):
        nw.load(saved)
    config["conditioner"] = {"conditioner": "duu"}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="Did you mean 'dau'"):
        nw.load(saved)


def test_an_encoder_without_use(tmp_path: Path) -> None:
    nw.attach(tiny("gpt2"), "softmax").save_pretrained(tmp_path / "plain")
    with pytest.raises(ValueError, match="conditioner"):
        nw.load(tmp_path / "plain", encoder=encoder())
    tiny("gpt2").save_pretrained(tmp_path / "bare")
    with pytest.raises(ValueError, match="conditioner"):
        nw.load(tmp_path / "bare", "softmax", encoder=encoder())


def test_a_trained_encoder_is_saved_as_it_is(tmp_path: Path) -> None:
    model = conditioned(tiny("gpt2"), "softmax", "dau", trains="all")
    before = model.config.auxiliary_encoder["fingerprint"]
    with torch.no_grad():
        for parameter in model.auxiliary_encoder.parameters():
            parameter += 0.1
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path)
    told = loaded.config.auxiliary_encoder["fingerprint"]
    assert told == fingerprint(model.auxiliary_encoder) != before
    frozen = nw.attach(loaded, "softmax", conditioner=settings_of("dau", trains="new"))
    frozen.save_pretrained(tmp_path / "frozen")
    assert nw.load(tmp_path / "frozen").config.auxiliary_encoder["fingerprint"] == told


def test_the_encoders_name_lives_on(tmp_path: Path) -> None:
    """Through saving, loading and another head, so that messages say which encoder is needed."""
    encoder().save_pretrained(tmp_path / "reader")
    name = str(tmp_path / "reader")
    model = nw.attach(tiny("gpt2"), "softmax", conditioner="dau", encoder=name)
    assert model.config.auxiliary_encoder["name"] == name
    model.save_pretrained(tmp_path / "one")
    nw.attach(nw.load(tmp_path / "one"), "cache").save_pretrained(tmp_path / "two")
    assert nw.load(tmp_path / "two", "mos:2").config.auxiliary_encoder["name"] == name
    with pytest.raises(ValueError, match=f"not those of '{name}' that the model was trained with"):
        nw.load(tmp_path / "two", encoder=encoder(seed=2))


def test_saved_without_conditioner_needs_none(tmp_path: Path) -> None:
    nw.attach(tiny("gpt2"), "softmax").save_pretrained(tmp_path)
    loaded = nw.load(tmp_path)
    assert loaded.conditioner is None
    assert loaded.auxiliary_encoder is None
    assert loaded.config.conditioner is None


def test_an_encoder_without_pooling_layer(tmp_path: Path) -> None:
    reader = encoder()
    reader.pooler = None
    model = nw.attach(tiny("gpt2"), "softmax", conditioner="dau", encoder=reader).eval()
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path)
    given = inputs(model) | aux_of(model)
    assert torch.equal(loaded(**given).logits, model(**given).logits)
