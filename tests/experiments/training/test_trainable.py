"""What of a model is trained, by module."""

from __future__ import annotations

import pytest
from torch import nn

import nextword as nw
from nextword.experiments.training import trainable as module
from nextword.experiments.training.settings import LoraSettings
from nextword.experiments.training.trainable import expect_room, trainable, trained_modules
from tests.helpers.conditioned_models import encoder
from tests.helpers.tiny_trainings import settings, tiny_gpt2

LAST = ("ln_2", "mlp")


@pytest.mark.parametrize(
    ("conditioner", "expected"),
    [
        ("dau:published", {"conditioner"}),
        ("lmh:published", {"conditioner", "backbone.lm_head"}),
        ("bergpt:published", {"conditioner", "backbone.lm_head"}),
        ("bergpt", {"conditioner", "backbone.lm_head", "backbone.transformer.ln_f"}),
    ],
)
def test_every_trained_parameter_is_counted_once(conditioner: str, expected: set[str]) -> None:
    bare = tiny_gpt2()
    last = len(bare.transformer.h) - 1
    if conditioner == "bergpt":  # the report's section 3.4, but not its 4.2
        expected = expected | {f"backbone.transformer.h.{last}.{part}" for part in LAST}
    model = nw.attach(bare, "softmax", conditioner=conditioner, encoder=encoder())
    found = trained_modules(model)
    assert set(found) == expected
    assert sum(found.values()) == sum(one.numel() for one in model.parameters() if one.requires_grad)
    assert found["conditioner"] == sum(one.numel() for one in model.conditioner.parameters())


def test_what_cannot_fit_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nw.attach(tiny_gpt2(), "mos:2")
    numbers = sum(one.numel() for one in model.parameters())
    monkeypatch.setattr(module, "free_to_train", lambda: 12 * numbers)
    expect_room(model, settings())
    monkeypatch.setattr(module, "free_to_train", lambda: 12 * numbers - 1)
    with pytest.raises(ValueError, match=r"\(training.trains=head\)"):
        expect_room(model, settings())
    head = settings(trains="head")
    with trainable(model, head, seed=0):
        expect_room(model, head)


def test_shared_and_single_parameters() -> None:
    model = tiny_gpt2(tie=True)
    everything = sum(one.numel() for one in model.parameters())
    assert trained_modules(model) == {"all": everything}
    model.requires_grad_(False)
    assert trained_modules(model) == {}
    model.lm_head.weight.requires_grad_(True)
    assert trained_modules(model) == {"transformer.wte": model.lm_head.weight.numel()}
    model.transformer.h[0].ln_1.bias.requires_grad_(True)
    assert "transformer.h.0.ln_1.bias" in trained_modules(model)


def test_modules_of_all_layers_are_one_entry() -> None:
    model = nn.ModuleDict(
        {"h": nn.ModuleList(nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}) for _ in "12")}
    )
    for layer in model["h"]:
        layer["b"].requires_grad_(False)
    assert trained_modules(model) == {"h.*.a": 12}


def test_adapters_are_named() -> None:
    pytest.importorskip("peft")
    model = nw.attach(tiny_gpt2(), "softmax")
    with trainable(model, settings(lora=LoraSettings(rank=2)), seed=0):
        found = trained_modules(model)
        assert sum(found.values()) == sum(one.numel() for one in model.parameters() if one.requires_grad)
        assert any("lora_A" in name for name in found)


def test_the_head_alone() -> None:
    model = nw.attach(tiny_gpt2(), "mos:2")
    with trainable(model, settings(trains="head"), seed=0):
        assert set(trained_modules(model)) == {"next_word_head"}
    assert set(trained_modules(model)) == {"all"}
    with (
        pytest.raises(ValueError, match=r"trains:.*head without parameters"),
        trainable(nw.attach(tiny_gpt2(), "cache"), settings(trains="head"), seed=0),
    ):
        pass
