"""Which weights of a conditioned model are trained, and which stay to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import nextword as nw
from tests.helpers.conditioned_models import conditioned, encoder, settings_of, texts
from tests.helpers.families import inputs, labels, tiny

AUX = texts((7, 3, 5))
LAST = ("ln_2.", "mlp.")
"""What follows the self-attention in a layer of GPT-2."""
AFTER = {"llama": ("post_attention_layernorm.", "mlp."), "qwen2": ("post_attention_layernorm.", "mlp.")}


def trained(model: Any) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def names(model: Any, *beginnings: str) -> set[str]:
    return {name for name, _ in model.named_parameters() if name.startswith(beginnings)}


def layer(model: Any, number: int, *parts: str) -> set[str]:
    return names(model, *(f"backbone.transformer.h.{number}.{part}" for part in parts or ("",)))


OWN = ("conditioner.", "next_word_head.")
NEW: dict[str, Any] = {
    "lmh": (*OWN, "backbone.lm_head"),
    "dau": OWN,
    "bergpt": (*OWN, "backbone.lm_head"),
    "prefix": OWN,
}


@pytest.mark.parametrize("conditioner", NEW)
@pytest.mark.parametrize("trains", ["new", "decoder", "all"])
def test_what_is_trained(conditioner: str, trains: str) -> None:
    model = conditioned(tiny("gpt2"), "mos:2", conditioner, trains=trains)
    more = {"new": (), "decoder": ("backbone.",), "all": ("backbone.", "auxiliary_encoder.")}[trains]
    assert trained(model) == names(model, *NEW[conditioner], *more)
    assert any(name.startswith("next_word_head") for name in trained(model))


@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt"])
def test_published_trains_what_is_new_and_no_pretrained_weight(conditioner: str) -> None:
    """The report's section 4.2; in BERGPT the rest of the last layer is frozen too."""
    model = nw.attach(tiny("gpt2"), "softmax", conditioner=f"{conditioner}:published", encoder=encoder())
    assert trained(model) == names(model, *NEW[conditioner])


def test_defaults() -> None:
    kinds = {name: nw.attach(tiny("gpt2"), "softmax", conditioner=name, encoder=encoder()) for name in NEW}
    assert {name: model.conditioner.config.trains for name, model in kinds.items()} == {
        "lmh": "new", "dau": "new", "bergpt": "downstream", "prefix": "new",
    }  # fmt: skip


@pytest.mark.parametrize("conditioner", ["lmh", "dau", "prefix"])
def test_downstream_of_the_others(conditioner: str) -> None:
    model = conditioned(tiny("gpt2"), "softmax", conditioner, trains="downstream")
    more = ("backbone.",) if conditioner == "prefix" else ()
    assert trained(model) == names(model, *NEW[conditioner], *more)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("layers", "first"), [(None, 2), ([1], 1), ([-1, 0], 0), ([1, 2], 1)])
def test_downstream_of_the_blocks(layers: list[int] | None, first: int, tied: bool) -> None:
    model = conditioned(tiny("gpt2"), "softmax", {"conditioner": "bergpt", "layers": layers, "tied": tied})
    expected = names(model, "conditioner.", "backbone.transformer.ln_f") | layer(model, first, *LAST)
    expected = expected.union(*(layer(model, later) for later in range(first + 1, 3)))
    # named_parameters names a shared weight once, as the input embedding
    expected |= {"backbone.transformer.wte.weight"} if tied else {"backbone.lm_head.weight"}
    assert trained(model) == expected
    assert model.get_output_embeddings().weight.requires_grad


@pytest.mark.parametrize("family", AFTER)
def test_downstream_in_other_families(family: str) -> None:
    model = conditioned(tiny(family), "softmax", "bergpt")
    last = tuple(f"backbone.model.layers.2.{part}" for part in AFTER[family])
    assert trained(model) == names(model, "conditioner.", "backbone.model.norm", "backbone.lm_head", *last)


@pytest.mark.parametrize(
    ("conditioner", "trains"),
    [
        ("lmh", "new"),
        ("dau", "new"),
        ("bergpt", "downstream"),
        ("bergpt", "new"),
        ("prefix", "decoder"),
        ("dau", "all"),
    ],
)
def test_the_rest_stays_to_the_bit(conditioner: str, trains: str) -> None:
    """From the published or the unchanged start, after two steps of an optimiser that is given everything."""
    start = {} if conditioner == "prefix" else {"start": "unchanged"}
    spec = settings_of(conditioner, trains=trains, **start)
    model = nw.attach(tiny("gpt2"), "mos:2", conditioner=spec, encoder=encoder()).train()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    given = inputs(model)
    for _ in range(2):
        optimiser.zero_grad()
        model(**given, **AUX, labels=labels(given)).loss.backward()
        optimiser.step()
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    without_gradient = {"auxiliary_encoder.pooler.dense.weight", "auxiliary_encoder.pooler.dense.bias"}
    assert changed == trained(model) - without_gradient
    assert 0 < len(changed) < len(before)


def test_a_frozen_encoder_has_no_dropout_and_no_graph() -> None:
    reader = encoder(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5).train()
    given, ids = inputs(tiny("gpt2")), AUX["aux_input_ids"]
    model = nw.attach(tiny("gpt2").train(), "softmax", conditioner="dau", encoder=reader)
    for _ in range(2):
        assert model.training
        assert not any(module.training for module in model.auxiliary_encoder.modules())
        states = model.encode(ids)
        assert not states.requires_grad
        assert torch.equal(model.encode(ids), states)
        model = model.eval().train()
    model(**given, **AUX, labels=labels(given)).loss.backward()
    assert all(parameter.grad is None for parameter in reader.parameters())
    assert model.conditioner.project.weight.grad.abs().sum() > 0
    learning = nw.attach(tiny("gpt2").train(), "softmax", conditioner=settings_of("dau", trains="all"), encoder=reader)
    assert all(module.training for module in learning.auxiliary_encoder.modules())
    assert learning.encode(ids).requires_grad
    assert not torch.equal(learning.encode(ids), learning.encode(ids))
    assert not learning.eval().encode(ids).isnan().any()
    assert torch.equal(learning.encode(ids), learning.encode(ids))


@pytest.mark.few(1)
@pytest.mark.parametrize(("conditioner", "trains"), [("lmh", "new"), ("bergpt", "downstream"), ("dau", "all")])
def test_chosen_again_after_loading(conditioner: str, trains: str, tmp_path: Path) -> None:
    model = conditioned(tiny("gpt2"), "softmax", conditioner, trains=trains)
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path)
    assert trained(loaded) == trained(model)
    assert trained(nw.load(tmp_path, "mos:2")) == trained(nw.attach(model, "mos:2"))
    assert trained(nw.load(tmp_path, encoder=encoder())) == trained(model)
    assert trained(AutoModelForCausalLM.from_pretrained(tmp_path)) == trained(model)
    loaded.train()
    assert loaded.auxiliary_encoder.training == (trains == "all")


def test_another_choice_frees_what_was_frozen() -> None:
    model = conditioned(tiny("gpt2"), "softmax", "dau")
    again = nw.attach(model, "softmax", conditioner=settings_of("dau", trains="all"))
    assert trained(again) == {name for name, _ in again.named_parameters()}
