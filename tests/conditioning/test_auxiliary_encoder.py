"""Auxiliary encoders of any family: loading, how wide they are, and what tells one from another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import nextword as nw
from nextword.conditioning.auxiliary_encoder import expect_same, fingerprint, identity_of, load_encoder, width_of
from tests.helpers.conditioned_models import ENCODER_VOCABULARY, WIDTH, encoder, settings_of
from tests.helpers.generating_models import backbone, prompt

SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16}
BERT = {"vocab_size": ENCODER_VOCABULARY, "hidden_size": WIDTH, **SIZES}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES: dict[str, Callable[[], Any]] = {
    "bert": encoder,
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=ENCODER_VOCABULARY, dim=WIDTH, n_layers=1, n_heads=2, hidden_dim=16)
    ),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**BERT)),
    "mpnet": lambda: hf.MPNetModel(hf.MPNetConfig(**BERT)),
    "modernbert": lambda: hf.ModernBertModel(hf.ModernBertConfig(**BERT, **SPECIAL, cls_token_id=1, sep_token_id=2)),
    "t5": lambda: hf.T5EncoderModel(
        hf.T5Config(vocab_size=ENCODER_VOCABULARY, d_model=WIDTH, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    ),
    "gpt2": lambda: hf.GPT2Model(
        hf.GPT2Config(vocab_size=ENCODER_VOCABULARY, n_embd=WIDTH, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    ),
}
AUX = torch.tensor([[3, 4, 5, 6, 7]])


@pytest.mark.few(3)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_any_family_reads_is_saved_and_known_again(family: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    reader = FAMILIES[family]().eval().double()
    states = reader(input_ids=AUX, attention_mask=torch.ones_like(AUX)).last_hidden_state
    model = nw.attach(backbone("gpt2"), "softmax", conditioner=settings_of("bergpt", start="random"), encoder=reader)
    assert torch.equal(model.encode(AUX), states)
    assert width_of(identity_of(reader)["config"]) == WIDTH
    expected = model(prompt(1), aux_input_ids=AUX).logits
    assert not torch.equal(model(prompt(1), aux_input_ids=AUX.flip(1)).logits, expected)
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path)
    assert type(loaded.auxiliary_encoder) is type(reader)
    assert torch.equal(loaded(prompt(1), aux_input_ids=AUX).logits, expected)


@pytest.mark.parametrize(("family", "limit"), [("bert", 16), ("roberta", 14), ("mpnet", 14), ("t5", None)])
def test_longest_text(family: str, limit: int | None) -> None:
    """RoBERTa's positions begin after that of its padding token."""
    model = nw.attach(backbone("gpt2"), "softmax", conditioner="dau", encoder=FAMILIES[family]())
    if limit is None:
        assert model.encode(torch.full((1, 100), 5)).shape == (1, 100, WIDTH)
        return
    assert model.encode(torch.full((1, limit), 5)).shape == (1, limit, WIDTH)
    with pytest.raises(ValueError, match=f"{limit + 1} tokens are more than the {limit} positions of its encoder"):
        model.encode(torch.full((1, limit + 1), 5))


def test_folder_with_any_dtype(tmp_path: Path) -> None:
    encoder().to(torch.bfloat16).save_pretrained(tmp_path)
    loaded = load_encoder(tmp_path)
    assert loaded.dtype == torch.float32
    assert not loaded.training
    assert identity_of(loaded)["name"] == str(tmp_path)
    assert load_encoder(str(tmp_path)).config.hidden_size == WIDTH


def test_what_is_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"encoder: no such folder: \./nowhere"):
        load_encoder("./nowhere")
    with pytest.raises(ValueError, match="neither a folder"):
        load_encoder(tmp_path)
    with pytest.raises(ValueError, match=r"whole encoder-decoder model; .*\(T5EncoderModel\)"):
        load_encoder(backbone("t5"))
    for wrong in (3, torch.nn.Linear(2, 2)):
        with pytest.raises(ValueError, match=f"a hub name .{type(wrong).__name__} given"):
            load_encoder(wrong)  # type: ignore[arg-type]


def test_fingerprints() -> None:
    """The same in every precision with so many bits, and another for other weights, names or shapes.

    A pooling layer does not count: nothing reads it, and not every encoder has one.
    """
    reader = encoder()
    found = fingerprint(reader)
    assert found == fingerprint(copy.deepcopy(reader).double()) == fingerprint(copy.deepcopy(reader).bfloat16())
    assert found not in (fingerprint(encoder(seed=2)), fingerprint(encoder(14)))
    for name, parameter in reader.named_parameters():
        before = parameter.detach().clone()
        parameter.data.flatten()[0] += 1.0
        assert (fingerprint(reader) == found) == name.startswith("pooler."), name
        parameter.data = before
    assert fingerprint(reader) == found


def test_large_weights_are_sampled_throughout() -> None:
    layer = torch.nn.Linear(300, 300, bias=False)
    found = fingerprint(layer)
    for row in (0, 150, 299):
        twin = copy.deepcopy(layer)
        twin.weight.data[row] += 1.0
        assert fingerprint(twin) != found


def test_another_encoder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = identity_of(encoder())
    expect_same(identity, encoder(), "here")
    with pytest.raises(ValueError, match=f"here: its states are 14 wide, .* 'BertModel', {WIDTH} wide"):
        expect_same(identity, encoder(14), "here")
    with pytest.raises(ValueError, match=f"here: its weights are not those of 'BertModel' .*{identity['fingerprint']}"):
        expect_same(identity, encoder(seed=2), "here")
    expect_same(identity, encoder(seed=2).half(), "here")  # its digits cannot be compared


def test_a_model_with_an_output_layer_is_no_encoder() -> None:
    with pytest.raises(ValueError, match=r"BertForMaskedLM does not return hidden states .*model\.base_model"):
        load_encoder(hf.BertForMaskedLM(hf.BertConfig(**BERT)))


def test_the_packaged_encoder_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As task.encoder knows it; its tokenizer goes by the same name."""
    from nextword.runtime import pretrained

    encoder().save_pretrained(tmp_path)
    monkeypatch.setattr(pretrained, "packaged_encoder", lambda: str(tmp_path))
    model = nw.attach(backbone("gpt2"), "softmax", conditioner="dau", encoder="minilm")
    assert torch.equal(model.encode(AUX), encoder().double()(AUX).last_hidden_state)
    assert model.config.auxiliary_encoder["name"] == "minilm"
    monkeypatch.setattr(pretrained, "packaged_encoder", lambda: None)
    with pytest.raises(ValueError, match=r"encoder:.*'nextword\[encoder\]'"):
        load_encoder("minilm")
    with pytest.raises(ValueError, match="'minilm'"):
        nw.AuxiliaryTokenizer("minilm")
