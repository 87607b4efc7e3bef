"""Adapters of peft on an attached model: its head comes along unasked, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.heads.head import Head
from tests.helpers.conditioned_models import encoder, texts
from tests.helpers.families import inputs, labels, tiny

TARGETS = {"names": ["c_attn"], "all-linear": "all-linear", "of the head too": ["c_attn", "merge", "linear"]}
GIVEN = inputs(tiny("gpt2"))


@pytest.fixture(autouse=True)
def peft() -> Any:
    found = pytest.importorskip("peft")
    Head.register(found.utils.ModulesToSaveWrapper)  # it stands for what it wraps; the tests check types strictly
    return found


def attached(seed: int, head: Any = "mos:2+mi", **further: Any) -> Any:
    """A model whose head starts from random numbers of this seed, wide enough to be seen in the scores."""
    torch.manual_seed(seed)
    model = nw.attach(tiny("gpt2"), head, **further).eval()
    for parameter in model.next_word_head.parameters():
        parameter.data += 0.15 * torch.randn_like(parameter)
    return model


def trained(model: Any, **aux: Any) -> Any:
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        model(**GIVEN, **aux, labels=labels(GIVEN)).loss.backward()
        optimiser.step()
    return model.eval()


@pytest.mark.parametrize("targets", TARGETS)
def test_the_head_comes_back_on_a_model_attached_anew(peft: Any, targets: str, tmp_path: Path) -> None:
    before = attached(0)
    with torch.no_grad():
        untouched = before(**GIVEN).logits
        assert (attached(1)(**GIVEN).logits - untouched).abs().max() > 1e-3  # another draw of the head's maps
    adapted = peft.get_peft_model(before, peft.LoraConfig(r=2, target_modules=TARGETS[targets]))
    assert all(
        "lora_" in name or "modules_to_save" in name for name, p in adapted.named_parameters() if p.requires_grad
    )
    assert not any("lora_" in name for name, _ in before.next_word_head.named_parameters())
    with torch.no_grad():
        assert torch.equal(adapted(**GIVEN).logits, untouched)
    trained(adapted)
    with torch.no_grad():
        after = adapted(**GIVEN).logits
        assert (after - untouched).abs().max() > 1e-3
        with adapted.disable_adapter():
            assert torch.equal(adapted(**GIVEN).logits, untouched)
        adapted.save_pretrained(tmp_path / "adapter")
        loaded = peft.PeftModel.from_pretrained(attached(1), tmp_path / "adapter").eval()
        assert torch.equal(loaded(**GIVEN).logits, after)
        merged = loaded.merge_and_unload()
        torch.testing.assert_close(merged(**GIVEN).logits, after, rtol=0, atol=1e-4)
        assert not hasattr(merged, "peft_config")
        merged.save_pretrained(tmp_path / "merged")
        assert torch.equal(nw.load(tmp_path / "merged")(**GIVEN).logits, merged(**GIVEN).logits)


@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_a_head_without_weights_adds_nothing(peft: Any, head: str) -> None:
    adapted = peft.get_peft_model(attached(0, head), peft.LoraConfig(r=2, target_modules=["c_attn"]))
    assert adapted.peft_config["default"].modules_to_save is None


def test_a_loaded_model_has_its_head_in_its_folder(peft: Any, tmp_path: Path) -> None:
    attached(0).save_pretrained(tmp_path / "base")
    model = nw.load(tmp_path / "base")
    adapted = trained(peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules="all-linear")))
    assert adapted.peft_config["default"].modules_to_save is None
    with torch.no_grad():
        after = adapted(**GIVEN).logits
        adapted.save_pretrained(tmp_path / "adapter")
        again = peft.PeftModel.from_pretrained(nw.load(tmp_path / "base"), tmp_path / "adapter").eval()
        assert torch.equal(again(**GIVEN).logits, after)


@pytest.mark.few(2)
@pytest.mark.parametrize("conditioner", ["bergpt", "dau", "prefix:3"])
def test_the_conditioner_comes_along_too(peft: Any, conditioner: str, tmp_path: Path) -> None:
    aux = texts((7, 3, 5))

    def model(seed: int) -> Any:
        torch.manual_seed(seed)
        return nw.attach(tiny("gpt2"), "mos:2", conditioner=conditioner, encoder=encoder()).eval()

    adapted = peft.get_peft_model(model(0), peft.LoraConfig(r=2, target_modules=["c_attn"]))
    assert adapted.peft_config["default"].modules_to_save == ["next_word_head", "conditioner"]
    trained(adapted, **aux)
    with torch.no_grad():
        after = adapted(**GIVEN, **aux).logits
        adapted.save_pretrained(tmp_path)
        loaded = peft.PeftModel.from_pretrained(model(1), tmp_path).eval()
        assert torch.equal(loaded(**GIVEN, **aux).logits, after)


def test_adapters_of_transformers_own_interface(peft: Any, tmp_path: Path) -> None:
    """``model.add_adapter`` and ``load_adapter``, without a model of peft around."""
    model = attached(0)
    model.add_adapter(peft.LoraConfig(r=2, target_modules=["c_attn"]), "first")
    trained(model)
    with torch.no_grad():
        after = model(**GIVEN).logits
        model.save_pretrained(tmp_path)
        other = attached(1)
        other.load_adapter(str(tmp_path))
        assert torch.equal(other.eval()(**GIVEN).logits, after)


def test_a_later_adapter_that_would_lose_the_head_is_not_saved(peft: Any, tmp_path: Path) -> None:
    adapted = peft.get_peft_model(attached(0), peft.LoraConfig(r=2, target_modules=["c_attn"]))
    adapted.add_adapter("second", peft.LoraConfig(r=2, target_modules=["c_attn"]))
    with pytest.raises(ValueError, match=r"modules_to_save=\['next_word_head'\]"):
        adapted.save_pretrained(tmp_path)
    adapted.delete_adapter("second")
    kept = peft.LoraConfig(r=2, target_modules=["c_attn"], modules_to_save=["next_word_head"])
    adapted.add_adapter("third", kept)
    adapted.save_pretrained(tmp_path)
