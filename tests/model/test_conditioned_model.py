"""attach with a conditioner: the model starts as it was, whatever family it is of; what cannot be is refused."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2LMHeadModel

import nextword as nw
from tests.helpers.conditioned_models import conditioned, encoder, made_loud, texts
from tests.helpers.families import FAMILIES, inputs, labels, prompts, tiny

DECODERS = [family for family in FAMILIES if not tiny(family).config.is_encoder_decoder]
ENCODER_DECODERS = [family for family in FAMILIES if family not in DECODERS]
TIED = [family for family in DECODERS if tiny(family).config.tie_word_embeddings]
ADDING = ("lmh", "lmh:max", "dau", "bergpt", "bergpt:2")
AUX = texts((7, 3, 5))


def is_tied(model: Any) -> bool:
    return model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_both_kinds_of_families_are_here() -> None:
    assert {"gpt2", "qwen3", "granite"} <= set(TIED)
    assert {"llama", "qwen2"} <= set(DECODERS) - set(TIED)


@pytest.mark.few(5)
@pytest.mark.parametrize("conditioner", ADDING)
@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_starts_as_it_was(family: str, conditioner: str) -> None:
    bare = tiny(family)
    given = inputs(bare)
    expected = bare(**given).logits
    model = nw.attach(bare, "softmax", conditioner=conditioner, encoder=encoder())
    assert model.conditioner.is_neutral
    assert torch.equal(model(**given, **AUX).logits, expected)
    assert torch.equal(bare(**given).logits, expected)
    assert is_tied(bare) == (conditioner == "dau" and family in TIED)
    once_more = nw.attach(bare, "softmax", conditioner="dau", encoder=encoder())
    assert torch.equal(once_more(**given, **AUX).logits, expected)


@pytest.mark.few(5)
@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt:2", "prefix"])
@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_follows_its_text_and_leaves_the_bare_model_alone(family: str, conditioner: str) -> None:
    if (family, conditioner) == ("opt_narrow", "prefix"):
        with pytest.raises(ValueError, match="OPTForCausalLM"):
            conditioned(tiny(family), "softmax", conditioner)
        return
    bare = tiny(family)
    given = inputs(bare)
    expected = bare(**given).logits
    model = conditioned(bare, "softmax", conditioner)
    assert not model.conditioner.is_neutral
    found = model(**given, **AUX).logits
    turned = model(**given, **{name: value.roll(1, 0) for name, value in AUX.items()}).logits
    seen = given["attention_mask"].bool()
    if (family, conditioner) == ("mistral", "prefix"):
        seen[1] = False  # padding stands between prefix and text and fills the windows of four places
    differing = (found - turned).abs().amax(-1)[seen]
    assert differing.min() > 1e-4  # every place follows the text
    assert (found - expected).abs().amax(-1)[seen].min() > 1e-4
    assert torch.equal(bare(**given).logits, expected)
    out = model.generate(**prompts(model), **AUX, max_new_tokens=3)
    assert out.shape == (3, 12)


@pytest.mark.parametrize("conditioner", ["lmh:published", "lmh:max,published", "bergpt:published"])
def test_published_start_discards_the_output_layer(conditioner: str) -> None:
    bare = tiny("gpt2")
    before = bare.lm_head.weight.detach().clone()
    model = nw.attach(bare, "softmax", conditioner=conditioner, encoder=encoder())
    assert (bare.lm_head.weight - before).abs().mean() > before.std() / 2
    assert bare.lm_head.weight.std().item() == pytest.approx(before.std().item(), rel=0.1)
    assert torch.equal(bare.transformer.wte.weight, before)
    assert not model.conditioner.is_neutral


@torch.no_grad()
def test_published_start_has_no_bias_of_the_old_output_layer() -> None:
    bare = tiny("gpt2")
    bare.lm_head.bias = nn.Parameter(torch.ones(bare.config.vocab_size))
    nw.attach(bare, "softmax", conditioner="bergpt:published", encoder=encoder())
    assert not bare.lm_head.bias.any()


@pytest.mark.parametrize("conditioner", ["dau:published", {"conditioner": "bergpt", "start": "random", "tied": True}])
def test_random_start_leaves_an_output_layer_that_is_not_new(conditioner: Any) -> None:
    bare = tiny("gpt2")
    before = bare.lm_head.weight.detach().clone()
    model = nw.attach(bare, "softmax", conditioner=conditioner, encoder=encoder())
    assert is_tied(bare)
    assert torch.equal(bare.lm_head.weight, before)
    assert not model.conditioner.is_neutral


@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt", "prefix"])
@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_encoder_decoders_are_refused_and_left_as_they_are(family: str, conditioner: str) -> None:
    bare = tiny(family)
    given, tied = inputs(bare), is_tied(bare)
    expected = bare(**given).logits
    with pytest.raises(ValueError, match="encoder-decoder"):
        nw.attach(bare, "softmax", conditioner=conditioner, encoder=encoder())
    assert is_tied(bare) == tied
    assert torch.equal(bare(**given).logits, expected)


@pytest.mark.parametrize(("head", "objective"), [("softmx", "mle"), ("softmax", "mel")])
def test_a_wrong_spec_leaves_the_model_tied(head: str, objective: str) -> None:
    bare = tiny("gpt2")
    with pytest.raises(ValueError, match="Did you mean"):
        nw.attach(bare, head, objective, conditioner="lmh", encoder=encoder())
    assert is_tied(bare)


class NamesItsAttentionOtherwise(GPT2LMHeadModel):
    """Layers whose self-attention cannot be found."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for layer in self.transformer.h:
            layer.looking = layer.attn
            del layer.attn


class KeepsArgumentsToItself(GPT2LMHeadModel):
    """Layers that hand no further argument to their self-attention."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for layer in self.transformer.h:
            layer.attn.register_forward_pre_hook(self.forget, with_kwargs=True, prepend=True)

    @staticmethod
    def forget(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        module.forgotten = kwargs.pop("after_self_attention", None)
        return args, kwargs


class TakesNoArguments(GPT2LMHeadModel):
    """A forward without room for further arguments."""

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, use_cache: Any = None, past_key_values: Any = None,
        output_hidden_states: Any = None, return_dict: Any = None,
    ) -> Any:  # fmt: skip
        return super().forward(
            input_ids, attention_mask=attention_mask, use_cache=use_cache, past_key_values=past_key_values,
            output_hidden_states=output_hidden_states,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (KeepsArgumentsToItself, r"do not pass extra arguments to their self-attention.*use dau, lmh or prefix"),
        (TakesNoArguments, r"do not pass extra arguments .*use dau, lmh or prefix.*unexpected keyword"),
        (NamesItsAttentionOtherwise, "no list of 3 layers with a self-attention"),
    ],
)
def test_backbones_that_cannot_attend_are_refused(kind: Any, message: str) -> None:
    model = kind(tiny("gpt2").config).eval()
    if kind is NamesItsAttentionOtherwise:
        model.forward = GPT2LMHeadModel(model.config).eval().forward  # of a model of the same size, to be provable
        from nextword.conditioning.cross_attention import prepare_layers

        with pytest.raises(ValueError, match=message):
            prepare_layers(model)
        return
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=message):
        nw.attach(model, "softmax", conditioner="bergpt:published", encoder=encoder())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert nw.attach(model, "softmax", conditioner="dau", encoder=encoder())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt", "prefix"])
@torch.no_grad()
def test_new_parts_have_the_models_precision(conditioner: str, dtype: torch.dtype) -> None:
    model = conditioned(tiny("gpt2", dtype), "softmax", conditioner)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    log_probs = model.distribution(**inputs(model), **AUX).log_probs()
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(27).to(log_probs), rtol=0, atol=1e-5)


def test_another_head_keeps_the_conditioner_and_another_conditioner_replaces_it() -> None:
    model = conditioned(tiny("gpt2"), "softmax", "bergpt")
    given = inputs(model)
    again = nw.attach(model, "cache")
    assert again.conditioner is model.conditioner
    assert again.auxiliary_encoder is model.auxiliary_encoder
    assert again.config.conditioner == model.config.conditioner
    kept = nw.attach(again, "softmax")
    assert torch.equal(kept(**given, **AUX).logits, model(**given, **AUX).logits)
    other = nw.attach(model, "softmax", conditioner="dau")
    assert other.auxiliary_encoder is model.auxiliary_encoder
    assert type(other.conditioner).__name__ == "DistributionAdjustmentConditioner"
    assert torch.equal(other(**given, **AUX).logits, model.backbone(**given).logits)
    replaced = nw.attach(model, "softmax", conditioner="dau", encoder=encoder(14))
    assert replaced.conditioner.width == 14


@torch.no_grad()
def test_several_wrappers_of_one_backbone() -> None:
    bare = tiny("gpt2")
    first = conditioned(bare, "softmax", {"conditioner": "bergpt", "layers": [0], "tied": True})
    given = inputs(bare)
    expected, plain = first(**given, **AUX).logits, bare(**given).logits
    second = conditioned(bare, "cache", {"conditioner": "bergpt", "layers": [1, 2], "tied": True})
    third = conditioned(bare, "softmax", "prefix:2")
    outputs = [second(**given, **AUX).logits, third(**given, **AUX).logits]
    for _ in range(2):
        assert torch.equal(first(**given, **AUX).logits, expected)
        assert torch.equal(bare(**given).logits, plain)
        assert torch.equal(second(**given, **AUX).logits, outputs[0])
        assert torch.equal(third(**given, **AUX).logits, outputs[1])
    assert len({round(float(found.abs().sum()), 3) for found in (expected, plain, *outputs)}) == 4


@pytest.mark.few(2)
@pytest.mark.parametrize("conditioner", ["lmh", "bergpt", "prefix"])
def test_threads_do_not_see_each_other(conditioner: str) -> None:
    model = conditioned(tiny("gpt2"), "cache", conditioner)
    given = inputs(model)
    kinds = [{name: value.roll(turn, 0) for name, value in AUX.items()} for turn in range(3)]

    def work(aux: dict[str, Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return [model(**given, **aux).logits for _ in range(4)]

    expected = [work(aux)[0] for aux in kinds]
    with ThreadPoolExecutor(3) as pool:
        for found, own in zip(pool.map(work, kinds), expected, strict=True):
            assert all(torch.equal(each, own) for each in found)
    assert not torch.equal(expected[0], expected[1])


@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt", "prefix"])
@torch.no_grad()
def test_copies_are_independent(conditioner: str) -> None:
    model = conditioned(tiny("qwen2"), "cache", conditioner)
    given = inputs(model)
    expected = model(**given, **AUX).logits
    twin = copy.deepcopy(model)
    assert torch.equal(twin(**given, **AUX).logits, expected)
    made_loud(twin.conditioner, seed=8)
    made_loud(twin.auxiliary_encoder, seed=9)
    assert not torch.equal(twin(**given, **AUX).logits, expected)
    assert torch.equal(model(**given, **AUX).logits, expected)


@pytest.mark.parametrize("conditioner", ["lmh", "dau:max", "bergpt:2"])
@torch.no_grad()
def test_new_tokens_leave_old_scores_alone(conditioner: str) -> None:
    model = conditioned(tiny("gpt2"), "softmax", conditioner)
    given = inputs(model)
    expected = model(**given, **AUX).logits
    size = expected.shape[-1]
    for more in (5, 0, 2):
        model.resize_token_embeddings(size + more, mean_resizing=False)
        logits = model(**given, **AUX).logits
        assert logits.shape[-1] == size + more
        torch.testing.assert_close(logits[..., :size], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.few(3)
@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt:2", "prefix"])
def test_gradient_checkpointing_changes_no_gradient(conditioner: str) -> None:
    found = []
    for checkpointing in (False, True):
        model = conditioned(tiny("gpt2", torch.float64), "softmax+mi", conditioner, trains="all")
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        given = inputs(model)
        torch.manual_seed(0)  # dropout stays on: it must be the same in the second pass
        model(**given, **AUX, labels=labels(given)).loss.backward()
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert any(name.startswith("conditioner") for name in found[0])
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-9, atol=1e-12)
