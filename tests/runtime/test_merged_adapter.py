"""An adapter of peft is a model wherever a model is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import nextword as nw
from nextword.experiments.training.train_config import configured
from nextword.inference.scoring.opened_model import open_model
from nextword.runtime.pretrained import load_tokenizer, model_location
from tests.helpers import text_tokenizers
from tests.helpers.families import inputs, tiny
from tests.helpers.opened_models import decoder

peft = pytest.importorskip("peft")


def adapter(model: Any, base: Path, folder: Path) -> Any:
    """An adapter that changes what the saved model says, saved to a folder."""
    torch.manual_seed(1)
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    adapted = peft.get_peft_model(model, config).eval()
    adapted.save_pretrained(folder)
    return adapted


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    tiny("gpt2").save_pretrained(tmp_path / "base")
    text_tokenizers.byte_level().save_pretrained(tmp_path / "base")
    return tmp_path


def test_an_adapter_is_opened_as_the_model_that_it_makes(folders: Path) -> None:
    base = AutoModelForCausalLM.from_pretrained(folders / "base").eval()
    given = inputs(base)
    before = base(**given).logits
    expected = adapter(base, folders / "base", folders / "adapter")(**given).logits
    assert (expected - before).abs().max() > 1e-2
    assert model_location(folders / "adapter") == folders / "adapter"
    loaded = nw.load(folders / "adapter").eval()
    torch.testing.assert_close(loaded(**given).logits, expected, rtol=0, atol=1e-4)
    loaded.save_pretrained(folders / "whole")
    torch.testing.assert_close(nw.load(folders / "whole").eval()(**given).logits, expected, rtol=0, atol=1e-4)


def test_the_model_of_an_adapter_can_be_trained(folders: Path) -> None:
    opened = decoder(text_tokenizers.byte_level(), "cache")
    opened.model.save_pretrained(folders / "ours")
    opened.tokenizer.save_pretrained(folders / "ours")
    adapter(nw.load(folders / "ours"), folders / "ours", folders / "adapter")
    text = folders / "a.txt"
    text.write_text("The king sat on the throne .\n" * 200)
    nw.train(
        {
            "model": str(folders / "adapter"), "head": "cache",
            "data": {"path": str(text), "block": 32, "window": 32, "stride": 16},
            "training": {"steps": 2, "batch_size": 2, "learning_rate": 1e-3},
        },
        folders / "trained",
    )  # fmt: skip
    trained, before = nw.load(folders / "trained"), nw.load(folders / "adapter")
    assert all(weight.requires_grad for weight in before.parameters())
    moved = [not torch.equal(trained.get_parameter(name), weight) for name, weight in before.named_parameters()]
    assert all(moved)


def test_the_tokenizer_is_that_of_the_model_or_its_own(folders: Path) -> None:
    adapter(AutoModelForCausalLM.from_pretrained(folders / "base"), folders / "base", folders / "adapter")
    assert len(load_tokenizer(str(folders / "adapter"), "m")) == len(text_tokenizers.byte_level())
    text_tokenizers.words().save_pretrained(folders / "adapter")
    assert load_tokenizer(str(folders / "adapter"), "m").get_vocab() == text_tokenizers.words().get_vocab()


def test_a_model_of_ours_keeps_its_head(folders: Path) -> None:
    opened = decoder(text_tokenizers.byte_level(), "cache")
    opened.model.save_pretrained(folders / "ours")
    opened.tokenizer.save_pretrained(folders / "ours")
    ours = nw.load(folders / "ours").eval()
    given = {"input_ids": torch.arange(12)[None]}
    expected = adapter(ours, folders / "ours", folders / "adapter")(**given).logits
    found = open_model(folders / "adapter", device="cpu")
    assert found.name == "adapter"
    torch.testing.assert_close(found.model(**given).logits, expected, rtol=0, atol=1e-4)
    config = configured({"model": str(folders / "adapter"), "data": "a.txt"})
    assert config.head == "cache" or config.head.startswith("cache")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_model_name_or_path": None}, "the adapter does not name its base model"),
        ({"base_model_name_or_path": "./gone"}, r"\./gone"),
        ({"target_modules": ["no_such"]}, "the adapter does not fit its base model"),
    ],
)
def test_what_cannot_be_opened_is_said(folders: Path, changes: dict[str, Any], message: str) -> None:
    adapter(AutoModelForCausalLM.from_pretrained(folders / "base"), folders / "base", folders / "adapter")
    path = folders / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=message):
        nw.load(folders / "adapter")


def test_a_learned_prompt_is_refused(folders: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folders / "base")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    peft.get_peft_model(model, config).save_pretrained(folders / "adapter")
    with pytest.raises(ValueError, match=r"\(PROMPT_TUNING given"):
        nw.load(folders / "adapter")
