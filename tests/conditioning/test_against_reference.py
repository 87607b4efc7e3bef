"""Conditioners against their textbook forms: values and gradients, alone and within GPT-2."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from nextword.conditioning import parse_conditioner, registry
from nextword.heads import Dimensions
from tests.helpers.conditioned_models import WIDTH, conditioned, made_loud, texts
from tests.helpers.generating_models import backbone, prompt
from tests.oracles.textbook import conditioning as textbook

D, V, HEADS = 6, 9, 2
VALID = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def built(spec: Any) -> Any:
    config = parse_conditioner(spec)
    dimensions = Dimensions(hidden=D, layer=D, layers=3, vocab_size=V, source=WIDTH)
    conditioner = registry.get(config.conditioner)(config, dimensions, HEADS).double()
    made_loud(conditioner)
    return conditioner


def same(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    """Value and gradient; the gradient is that of a random weighting."""
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(9), dtype=ours.dtype)
    found, expected = (torch.autograd.grad((each * weights).sum(), leaves) for each in (ours, theirs))
    for mine, other in zip(found, expected, strict=True):
        assert other.abs().max() > 1e-6
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("name", ["lmh", "dau"])
def test_pooled_scores(name: str, pooling: str) -> None:
    conditioner, states = built(f"{name}:{pooling}"), randn(3, 5, WIDTH)
    made = conditioner.read(states, VALID)["scores"]
    weight, bias = conditioner.project.weight, conditioner.project.bias
    pooled = [textbook.POOLED[pooling](*row) for row in zip(states, VALID, strict=True)]
    nothing = torch.zeros(1, V, dtype=torch.float64)
    expected = torch.cat([textbook.dau_scores(nothing, own, weight, bias) for own in pooled])
    same(made, expected, [states, weight, bias])


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_cross_attention_block(heads: int) -> None:
    conditioner = built({"conditioner": "bergpt", "layers": [1], "heads": heads, "expansion": 3})
    source, states = randn(3, 5, WIDTH), randn(3, 4, D, seed=1)
    kept = conditioner.read(source, VALID)
    block = conditioner.blocks[0]
    made = states + block(states, kept["keys 1"], kept["values 1"], kept["valid"])
    weights = dict(block.named_parameters())
    rows = zip(states, source, VALID, strict=True)
    expected = torch.stack([textbook.bergpt_block(*row, weights, heads) for row in rows])
    leaves = [parameter for name, parameter in weights.items() if name != "key.bias"]
    same(made, expected, [source, states, *leaves])  # a bias of all keys moves no softmax


def test_prefix() -> None:
    conditioner, source = built("prefix:3"), randn(3, 5, WIDTH)
    weight, bias, queries = conditioner.project.weight, conditioner.project.bias, conditioner.queries
    made = conditioner.before_text(conditioner.read(source, VALID))
    expected = [textbook.prefix(*row, queries, weight, bias) for row in zip(source, VALID, strict=True)]
    same(made, torch.stack(expected), [source, weight, bias, queries])


@pytest.mark.parametrize("spec", ["lmh", "dau:max", "bergpt:2", "prefix:2"])
def test_padding_says_nothing(spec: str) -> None:
    conditioner, states = built(spec), randn(3, 5, WIDTH).detach()
    other = torch.where(VALID[..., None], states, 1e6)
    for name, made in conditioner.read(states, VALID).items():
        again = conditioner.read(other, VALID)[name]
        if name.startswith(("keys", "values")):  # these stand for every place, and the block leaves padding out
            made, again = made[VALID], again[VALID]
        assert torch.equal(made, again)
    if spec == "bergpt:2":
        block, asked = conditioner.blocks[0], randn(3, 4, D, seed=1)
        read = [conditioner.read(given, VALID) for given in (states, other)]
        added = [block(asked, kept["keys 1"], kept["values 1"], VALID) for kept in read]
        torch.testing.assert_close(*added, rtol=0, atol=1e-12)


def expected_log_probs(model: Any, row: Tensor, aux: Tensor) -> Tensor:
    """The whole model on one row without padding, by hand."""
    conditioner, gpt2 = model.conditioner, model.backbone
    config, state_of = conditioner.config, model.auxiliary_encoder(input_ids=aux[None]).last_hidden_state[0]
    valid = torch.ones(len(aux), dtype=torch.bool)
    if config.conditioner == "bergpt":
        heads = conditioner.blocks[0].heads
        blocks = {
            layer: partial(
                textbook.bergpt_block, source=state_of, valid=valid, weights=dict(block.named_parameters()), heads=heads
            )
            for layer, block in zip(conditioner.chosen, conditioner.blocks, strict=True)
        }
        return (textbook.gpt2_states(gpt2.transformer, row, blocks) @ gpt2.lm_head.weight.T).log_softmax(-1)
    states = textbook.gpt2_states(gpt2.transformer, row, {})
    pooled = textbook.POOLED[config.pooling](state_of, valid)
    weight, bias = conditioner.project.weight, conditioner.project.bias
    if config.conditioner == "lmh":
        both = torch.cat([gpt2.lm_head.weight, weight], 1)
        return textbook.lmh_scores(states, pooled, both, bias).log_softmax(-1)
    return textbook.dau_scores(states @ gpt2.lm_head.weight.T, pooled, weight, bias).log_softmax(-1)


@pytest.mark.parametrize(
    "spec", ["lmh", "lmh:max", "dau", "dau:max", "bergpt", "bergpt:3", {"conditioner": "bergpt", "layers": [0, -1]}]
)
def test_whole_model(spec: Any) -> None:
    model = conditioned(backbone("gpt2"), "softmax", spec, start="random", trains="all")
    ids, given = prompt(), texts()
    found = model.distribution(ids, **given).log_probs().unflatten(0, ids.shape)
    lengths = given["aux_attention_mask"].sum(1)
    expected = torch.stack(
        [
            expected_log_probs(model, row, aux[:length])
            for row, aux, length in zip(ids, given["aux_input_ids"], lengths, strict=True)
        ]
    )
    leaves = [
        model.backbone.transformer.wte.weight, model.backbone.transformer.h[0].mlp.c_fc.weight,
        model.auxiliary_encoder.embeddings.word_embeddings.weight,
        *(p for name, p in model.conditioner.named_parameters() if not name.endswith("key.bias")),
    ]  # fmt: skip
    same(found, expected, leaves)


def test_prefix_is_text_before_the_text() -> None:
    """The vectors as embeddings before those of the words, given to the backbone by hand."""
    model = conditioned(backbone("gpt2"), "softmax", "prefix:3")
    ids, given = prompt(), texts()
    states = model.encode(**given)
    vectors = [
        textbook.prefix(own, valid.bool(), model.conditioner.queries, *model.conditioner.project.parameters())
        for own, valid in zip(states, given["aux_attention_mask"], strict=True)
    ]
    embeddings = torch.cat([torch.stack(vectors), model.get_input_embeddings()(ids)], 1)
    expected = model.backbone(inputs_embeds=embeddings).logits[:, 3:].log_softmax(-1)
    found = model.distribution(ids, **given).log_probs().unflatten(0, ids.shape)
    same(found, expected, [*model.conditioner.parameters()])
