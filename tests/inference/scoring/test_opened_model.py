from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf

import nextword as nw
from nextword.inference.scoring.opened_model import OpenedModel, open_model
from tests.helpers import text_tokenizers
from tests.helpers.opened_models import conditioned, decoder


@pytest.fixture
def gpt2() -> hf.GPT2LMHeadModel:
    size = len(text_tokenizers.byte_level())
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=size, n_embd=8, n_layer=1, n_head=2, n_positions=32))


def test_a_plain_model_is_asked_with_softmax_and_stays_as_it_is(gpt2):
    before = copy.deepcopy(gpt2.config.to_dict())
    opened = OpenedModel.of(gpt2, text_tokenizers.byte_level(), name="plain")
    assert (opened.name, opened.model.next_word_head.config.head, opened.longest) == ("plain", "softmax", 32)
    assert gpt2.config.to_dict() == before
    assert opened.model.backbone is gpt2


def test_a_model_needs_its_tokenizer(gpt2):
    with pytest.raises(ValueError, match=r"tokenizer:.*model"):
        OpenedModel.of(gpt2)


def test_a_text_in_the_place_of_the_tokenizer_is_named(gpt2):
    tokenizer: Any = text_tokenizers.byte_level()
    asked: list[Callable[[Any], Any]] = [
        lambda text: nw.score(gpt2, text),
        lambda text: nw.score({"a": gpt2}, {"a": text}, ["A"]),
        lambda text: nw.trace(gpt2, text, tokenizer),
        lambda text: nw.generate(gpt2, text),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match=r"tokenizer:.*\('A\.txt' given"):
            ask("A.txt")
    with pytest.raises(ValueError, match=r"texts:.*\(\w+ given"):
        nw.score(gpt2, tokenizer, tokenizer)


@pytest.mark.parametrize("path", ["nowhere", "runs/nowhere", "./nowhere"])
def test_a_folder_that_is_not_there_is_named_with_what_to_do(path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for ask in (nw.load, open_model, lambda path: nw.score(path, texts="A"), lambda path: nw.trace(path, text="A")):
        with pytest.raises(ValueError, match=rf"^{path}: no (such|model) folder[^\n]*; give the path of a saved model"):
            ask(path)


def test_a_folder_brings_its_tokenizer_and_its_name(gpt2, tmp_path):
    folder = tmp_path / "mine"
    gpt2.save_pretrained(folder)
    text_tokenizers.byte_level().save_pretrained(folder)
    opened = OpenedModel.of(folder)
    assert opened.name == "mine"
    assert OpenedModel.of(str(folder), name="other").name == "other"
    assert OpenedModel.of(opened) == opened
    assert not opened.model.training


@pytest.mark.parametrize("beside", [False, True])
def test_a_conditioned_folder_brings_the_tokenizer_of_its_encoder(beside, tmp_path):
    made = conditioned("softmax+e")
    folder = tmp_path / "run" / "model"
    made.model.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    with pytest.raises(ValueError, match="encoder_tokenizer"):
        open_model(folder)
    made.auxiliary_tokenizer.encoder.save_pretrained((folder.parent if beside else folder) / "encoder_tokenizer")
    opened = open_model(folder)
    ids = opened.auxiliary_tokenizer(["the king"])
    assert {"aux_input_ids", "source_ids"} <= set(ids)  # the head copies, so its words are there too


def test_a_conditioned_model_in_memory_needs_both_tokenizers():
    made = conditioned("softmax")
    with pytest.raises(ValueError, match="auxiliary_tokenizer: must be given"):
        OpenedModel.of(made.model, made.tokenizer)
    assert OpenedModel.of(made.model, made.tokenizer, made.auxiliary_tokenizer).auxiliary_tokenizer is not None


def test_a_t5_has_no_limit():
    config = hf.T5Config(vocab_size=40, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, n_positions=16)
    config.decoder_start_token_id = 0
    model = nw.attach(hf.T5ForConditionalGeneration(config), "softmax")
    assert OpenedModel("t5", model, text_tokenizers.t5()).longest is None


@pytest.mark.parametrize("device", ["abacus", "cuda:7"])
def test_a_device_that_is_not_there(device, tmp_path):
    decoder(text_tokenizers.byte_level()).model.save_pretrained(tmp_path)
    if device.startswith("cuda") and torch.cuda.device_count() > 7:
        pytest.skip("it is there")
    with pytest.raises(ValueError, match=r"device:.*device of torch"):
        open_model(tmp_path, device)


def test_settings_of_a_head_may_differ_from_the_saved_ones(tmp_path) -> None:
    saved = decoder(text_tokenizers.byte_level(), "cache")
    saved.model.save_pretrained(tmp_path)
    saved.tokenizer.save_pretrained(tmp_path)
    changed = open_model(tmp_path, head={"long": 300, "decoupled": True})  # the latter is one of f2
    assert changed.model.next_word_head.config.long == 300
    assert open_model(tmp_path).model.next_word_head.config.long is None
    with pytest.raises(ValueError, match=r"set:.*'long'"):
        open_model(tmp_path, head={"lang": 300})
