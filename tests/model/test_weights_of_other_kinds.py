"""Backbones whose weights are quantised, or brought from disk for each layer."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import nextword as nw

IDS = torch.tensor([[5, 6, 7, 5, 6, 7]])


def tiny_llama() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    tokens = {"vocab_size": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, **tokens, tie_word_embeddings=False)).eval()


class Packed(torch.Tensor):
    """A weight in the manner of torchao's: it can be multiplied by states, and none of its rows can be picked."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> Packed:
        made = torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype)
        made.values = values
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            states, weight, bias = (*args, None)[:3]
            made = torch.nn.functional.linear(states.flatten(0, -2), weight.values, bias)
            return made.view(*states.shape[:-1], weight.shape[0])  # a view, as torchao's is
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].values)
        raise NotImplementedError(f"a packed weight has no {func}")


@pytest.mark.few(1)
@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+cpr:3,5+mi:2x3", "mos:2"])
def test_a_weight_that_only_the_layer_can_read(head: str) -> None:
    """Where another class holds the output layer's weight, picked scores come from the layer itself."""
    bare = tiny_llama()
    plain = nw.attach(copy.deepcopy(bare), head)
    bare.lm_head.weight = torch.nn.Parameter(Packed(bare.lm_head.weight.detach()), requires_grad=False)
    model = nw.attach(bare, head)
    model.next_word_head.load_state_dict(plain.next_word_head.state_dict())
    torch.testing.assert_close(model.distribution(IDS).log_probs(), plain.distribution(IDS).log_probs())
    losses = [each.train()(input_ids=IDS, labels=IDS).loss for each in (model, plain)]
    torch.testing.assert_close(*losses)
    losses[0].backward()
    nw.check(model.eval(), lengths=(6,)).raise_if_failed()


class Integers(torch.nn.Module):
    """An output layer in the manner of bitsandbytes' 4-bit one: a weight of integers, and no product of nothing."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.scale, self.bias = weight.abs().max() / 127, None
        self.weight = torch.nn.Parameter((weight / self.scale).round().to(torch.int8), requires_grad=False)

    def forward(self, states: Tensor) -> Tensor:
        assert states.numel() > 0, "this would end the process"
        return torch.nn.functional.linear(states, self.weight * self.scale)


@pytest.mark.few(1)
@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+cpr:3,5+mi:2x3", "mos:2", "pg"])
def test_a_layer_of_integers_that_cannot_be_asked_for_nothing(head: str) -> None:
    bare = tiny_llama()
    bare.lm_head = Integers(bare.lm_head.weight.detach())
    model = nw.attach(bare, head)
    if head == "softmax":
        assert torch.equal(model(input_ids=IDS).logits, bare(IDS).logits)
    model.train()(input_ids=IDS, labels=IDS).loss.backward()
    nw.check(model.eval(), lengths=(6,)).raise_if_failed()
    assert model.generate(IDS, max_new_tokens=3).shape == (1, 9)


@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+cpr:3,5+mi:2x3", "mos:2", "pg"])
@pytest.mark.filterwarnings("ignore:.*quantization")
def test_layers_that_torch_quantises(head: str) -> None:
    """Their weights are packed, and ``weight`` is a method. They scale what they read by the largest number of a call,
    so that a text's neighbours move its answers: the checker says so, with a head and without.
    """
    bare = tiny_llama()
    quantised = torch.ao.quantization.quantize_dynamic(nw.attach(bare, head), {torch.nn.Linear})
    with torch.no_grad():
        if head == "softmax":
            plain = torch.ao.quantization.quantize_dynamic(bare, {torch.nn.Linear})
            assert torch.equal(quantised(input_ids=IDS).logits, plain(IDS).logits)
            assert torch.equal(nw.attach(plain, head)(input_ids=IDS).logits, plain(IDS).logits)
        log_probs = quantised.distribution(IDS).log_probs()
    torch.testing.assert_close(log_probs.double().logsumexp(-1), torch.zeros(6).double(), rtol=0, atol=1e-6)
    assert quantised.generate(IDS, max_new_tokens=3).shape == (1, 9)


def test_words_are_not_compared_by_vectors_that_cannot_be_read() -> None:
    bare = tiny_llama()
    bare.lm_head = Integers(bare.lm_head.weight.detach())
    histalign = {"objective": "histalign", "embedding": "output"}
    model = nw.attach(bare, "cache", objective=histalign).train()
    with pytest.raises(ValueError, match="embedding"):
        model(input_ids=IDS, labels=IDS)


@pytest.mark.tools
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("of_output_layer", [False, True])
@pytest.mark.parametrize("head", ["softmax", "mos:2"])
def test_bitsandbytes(bits: int, of_output_layer: bool, head: str, tmp_path: Path) -> None:
    """The backbone's weights are reduced; those of the head are not, and a saved model loads as it was."""
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    tiny_llama().save_pretrained(tmp_path / "bare")
    asked: dict[str, Any] = {"device_map": {"": "cpu"}}
    skipped = ["none"] if of_output_layer else None
    reduced = hf.BitsAndBytesConfig(load_in_8bit=bits == 8, load_in_4bit=bits == 4, llm_int8_skip_modules=skipped)
    bare = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "bare", quantization_config=reduced, **asked)
    with torch.no_grad():
        expected = bare(IDS).logits[0].log_softmax(-1)
        model = nw.attach(bare, head)
        dist = model.distribution(IDS).log_probs()
        if head == "softmax":
            assert torch.equal(dist, expected)
        model.save_pretrained(tmp_path / "ours")
        again = nw.load(tmp_path / "ours", **asked)
        assert torch.equal(again.distribution(IDS).log_probs(), dist)
        nw.attach(tiny_llama(), head).save_pretrained(tmp_path / "whole")
        loaded = nw.load(tmp_path / "whole", quantization_config=reduced, **asked)
    for each in (model, again, loaded):
        assert f"Linear{bits}bit" in type(each.backbone.model.layers[0].mlp.up_proj).__name__
        assert all(weight.dtype == torch.float32 for weight in each.next_word_head.parameters())
    model.train()(input_ids=IDS, labels=IDS).loss.backward()


@pytest.mark.tools
@pytest.mark.parametrize("of_output_layer", [False, True])
@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+cpr:3,5+mi:2x3", "mos:2", "pg"])
def test_torchao(of_output_layer: bool, head: str, tmp_path: Path) -> None:
    """Weights of 8 bits: those of the head are not reduced, and a saved model can be reduced when it is loaded."""
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    tiny_llama().save_pretrained(tmp_path / "bare")
    kept = {"modules_to_not_convert": ["none"]} if of_output_layer else {}
    reduced = hf.TorchAoConfig(quantization.Int8WeightOnlyConfig(), **kept)
    bare = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "bare", quantization_config=reduced)
    with torch.no_grad():
        expected = bare(IDS).logits[0].log_softmax(-1)
        model = nw.attach(bare, head)
        if head == "softmax":
            assert torch.equal(model.distribution(IDS).log_probs(), expected)
    nw.attach(tiny_llama(), head).save_pretrained(tmp_path / "whole")
    for each in (model, nw.load(tmp_path / "whole", quantization_config=reduced)):
        assert "Int8" in type(each.backbone.model.layers[0].mlp.up_proj.weight).__name__
        assert ("Int8" in type(each.backbone.lm_head.weight).__name__) == of_output_layer
        assert {(type(weight), weight.dtype) for weight in each.next_word_head.parameters()} <= {
            (torch.nn.Parameter, torch.float32)
        }
        nw.check(each, lengths=(6,)).raise_if_failed()
    model.train()(input_ids=IDS, labels=IDS).loss.backward()


@pytest.mark.slow
@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+cpr:3,5+mi:2x3", "mos:2", "pg"])
@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_weights_that_are_brought_for_each_layer(head: str, where: str, tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate", reason="it is what brings them")
    bare = tiny_llama()
    plain = nw.attach(copy.deepcopy(bare), head)
    if where == "cpu":
        accelerate.cpu_offload(bare, execution_device=torch.device("cpu"))
    else:
        accelerate.disk_offload(bare, str(tmp_path), execution_device=torch.device("cpu"))
    assert all(weight.is_meta for weight in bare.parameters())
    model = nw.attach(bare, head)
    model.next_word_head.load_state_dict(plain.next_word_head.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(model.distribution(IDS).log_probs(), plain.distribution(IDS).log_probs())
        asked = {"max_new_tokens": 4, "do_sample": False}
        assert torch.equal(model.generate(IDS, **asked), plain.generate(IDS, **asked))
    nw.check(model, lengths=(6,)).raise_if_failed()


@pytest.mark.parametrize("mapping", ["auto", {"backbone": "disk", "next_word_head": "cpu", "objective": "cpu"}])
@pytest.mark.parametrize("head", ["softmax", "cache", "mos:2"])
def test_a_saved_model_over_memory_and_disk(head: str, mapping: Any, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="it is what brings them")
    plain = nw.attach(tiny_llama(), head)
    plain.save_pretrained(tmp_path / "model")
    kept = {"max_memory": {"cpu": 150_000}} if mapping == "auto" else {}
    model = nw.load(tmp_path / "model", device_map=mapping, offload_folder=tmp_path / "disk", **kept)
    assert any(weight.is_meta for weight in model.parameters())
    with torch.no_grad():
        torch.testing.assert_close(model.distribution(IDS).log_probs(), plain.distribution(IDS).log_probs())
    model.save_pretrained(tmp_path / "again")
    weights = nw.load(tmp_path / "again").state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in plain.state_dict().items())
