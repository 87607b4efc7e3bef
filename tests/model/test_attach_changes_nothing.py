"""A model that is attached to stays as its owner made it: configuration, flags and logits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from transformers import PreTrainedConfig

import nextword as nw
from nextword.model.training_modes import inference_mode_of
from tests.helpers.families import FAMILIES, inputs, labels, tiny

VOCABULARY = 48
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
VISION = {
    "hidden_size": 16, "intermediate_size": 16, "mlp_dim": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "image_size": 32, "patch_size": 8, "output_channels": 8, "window_size": 2, "global_attn_indexes": [0],
}  # fmt: skip


def qwen3_moe() -> Any:
    sizes = SIZES | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
    return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**sizes))


def mixtral() -> Any:
    return hf.MixtralForCausalLM(hf.MixtralConfig(**SIZES, num_local_experts=4))


def flex_olmo() -> Any:
    return hf.FlexOlmoForCausalLM(hf.FlexOlmoConfig(**SIZES, num_experts=4, num_experts_per_tok=2))


def granite_moe_swa() -> Any:
    sizes = SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2}
    return hf.AutoModelForCausalLM.from_config(hf.AutoConfig.for_model("granitemoe_swa", **sizes))


def got_ocr2() -> Any:
    text = hf.Qwen2Config(**SIZES)
    return hf.GotOcr2ForConditionalGeneration(hf.GotOcr2Config(text_config=text.to_dict(), vision_config=VISION))


def gpt2_eager() -> Any:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": VOCABULARY}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, attn_implementation="eager"))


MORE = {make.__name__: make for make in (qwen3_moe, mixtral, flex_olmo, granite_moe_swa, got_ocr2, gpt2_eager)}
EVERY: dict[str, Callable[[], Any]] = {name: lambda name=name: tiny(name) for name in FAMILIES} | MORE


def configurations(config: PreTrainedConfig, path: str = "config") -> Iterator[tuple[str, PreTrainedConfig]]:
    """A configuration and all inside it."""
    yield path, config
    for key, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            yield from configurations(value, f"{path}.{key}")


def seen_from_outside(model: Any) -> dict[str, Any]:
    """All that its owner could notice, but for the numbers: those are compared as logits."""
    found: dict[str, Any] = {"generation": model.generation_config.to_dict(), "tied": model.all_tied_weights_keys}
    for path, config in configurations(model.config):
        # with the private ones, among them which attention and which experts are to be computed
        found |= {f"{path}.{key}": repr(value) for key, value in vars(config).items()}
        found[f"{path}.to_dict"] = config.to_dict()
    for name, module in model.named_modules(remove_duplicate=False):
        found[f"module {name}"] = type(module), module.training, getattr(module, "_is_hf_initialized", None)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        marks = {key: value for key, value in vars(parameter).items() if key != "_backward_hooks"}
        found[f"parameter {name}"] = id(parameter), parameter.requires_grad, parameter.dtype, marks
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: (before.get(name), after.get(name)) for name in names}


@pytest.fixture(params=EVERY)
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    made = EVERY[request.param]().train()
    frozen = made.get_input_embeddings()
    frozen.eval()  # one part of it is kept apart by its owner
    frozen.weight.requires_grad_(False)
    return made


@torch.no_grad()
def logits(model: Any) -> Tensor:
    modes = [(module, module.training) for module in model.modules()]
    scores = model.eval()(**inputs(model)).logits
    for module, mode in modes:
        module.training = mode
    return scores


@pytest.mark.few(6)
@pytest.mark.parametrize("head", ["softmax", "mos:2"])
def test_nothing_of_the_model_is_changed(model: Any, head: str, tmp_path: Path) -> None:
    before, scores, twin = seen_from_outside(model), logits(model), copy.deepcopy(model)
    wrapped = nw.attach(model, head)
    assert differences(before, seen_from_outside(model)) == {}
    assert torch.equal(logits(model), scores)
    if head == "softmax":
        assert torch.equal(logits(wrapped), scores)
    wrapped.train()(**inputs(model), labels=labels(inputs(model))).loss.backward()
    wrapped.eval().generate(inputs(model)["input_ids"][:1], max_new_tokens=2, do_sample=False)
    wrapped.generation_config.max_length = 7
    wrapped.save_pretrained(tmp_path)
    after = seen_from_outside(model)
    assert {name for name in differences(before, after) if not name.startswith("module ")} == set()
    assert torch.equal(logits(model), logits(twin))


def test_a_word_of_the_owner_reaches_the_backbone(tmp_path: Path) -> None:
    """Which attention or experts are computed can be said of the whole, as of every model of transformers."""
    wrapped = nw.attach(qwen3_moe(), "softmax")
    assert wrapped.config._experts_implementation == wrapped.backbone.config._experts_implementation == "grouped_mm"
    wrapped.set_experts_implementation("eager")
    wrapped.set_attn_implementation("eager")
    assert wrapped.backbone.config._experts_implementation == wrapped.backbone.config._attn_implementation == "eager"
    wrapped.set_experts_implementation("grouped_mm")
    assert wrapped.config._experts_implementation == wrapped.backbone.config._experts_implementation == "grouped_mm"
    wrapped.save_pretrained(tmp_path)
    plain = nw.load(tmp_path)
    assert plain.backbone.config._attn_implementation == "sdpa"
    assert plain.backbone.config._experts_implementation == "grouped_mm"
    other = nw.load(tmp_path, attn_implementation="eager", experts_implementation="grouped_mm")
    assert other.backbone.config._attn_implementation == other.config._attn_implementation == "eager"
    assert other.backbone.config._experts_implementation == other.config._experts_implementation == "grouped_mm"
    other = nw.load(tmp_path, experts_implementation={"text_config": "eager"})
    assert other.backbone.config._experts_implementation == "eager"


@pytest.mark.parametrize("says_so", [False, True])
def test_what_was_untied_by_hand_stays_untied(says_so: bool, tmp_path: Path) -> None:
    model = tiny("gpt2")
    model.lm_head.weight = torch.nn.Parameter(2 * model.lm_head.weight.detach())
    model.config.tie_word_embeddings = says_so
    scores = logits(model)
    wrapped = nw.attach(model, "softmax")
    assert model.lm_head.weight is not model.transformer.wte.weight
    assert torch.equal(logits(model), scores)
    assert torch.equal(logits(wrapped), scores)
    wrapped.save_pretrained(tmp_path)
    assert torch.equal(logits(nw.load(tmp_path)), scores)


@torch.no_grad()
def test_measuring_leaves_the_mode_of_every_part() -> None:
    model = tiny("gpt2").train()
    model.transformer.h[0].eval()
    before = [module.training for module in model.modules()]
    with inference_mode_of(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before
