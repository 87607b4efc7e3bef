"""Random inputs for comparing a conditioner with its textbook form, alone and within GPT-2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nextword.conditioning import parse_conditioner, registry
from nextword.heads import Dimensions
from tests.helpers.conditioned_models import WIDTH, conditioned, made_loud, texts
from tests.helpers.generating_models import backbone, prompt
from tests.oracles.textbook import conditioning as textbook

D, V, HEADS = 6, 9, 2
VALID = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
EXACT = 1e-10
"""Both sides compute in float64, by other formulas."""


def randn(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers with gradients."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def built(spec: Any) -> Any:
    """A random conditioner in float64."""
    config = parse_conditioner(spec)
    dimensions = Dimensions(hidden=D, layer=D, layers=3, vocab_size=V, source=WIDTH)
    conditioner = registry.get(config.conditioner)(config, dimensions, HEADS).double()
    made_loud(conditioner)
    return conditioner


def check(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    """Value and gradient; the gradient is that of a random weighting."""
    torch.testing.assert_close(ours, theirs, rtol=EXACT, atol=EXACT)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(9), dtype=ours.dtype)
    found, expected = (torch.autograd.grad((each * weights).sum(), leaves) for each in (ours, theirs))
    for mine, other in zip(found, expected, strict=True):
        assert other.abs().max() > 1e-6
        torch.testing.assert_close(mine, other, rtol=EXACT, atol=EXACT)


def check_pooled_scores(spec: str, pooling: str) -> None:
    """What a conditioner adds to the scores for a pooled auxiliary text."""
    conditioner, states = built(spec), randn(3, 5, WIDTH)
    made = conditioner.read(states, VALID)["scores"]
    weight, bias = conditioner.project.weight, conditioner.project.bias
    pooled = [textbook.POOLED[pooling](*row) for row in zip(states, VALID, strict=True)]
    nothing = torch.zeros(1, V, dtype=torch.float64)
    expected = torch.cat([textbook.dau_scores(nothing, own, weight, bias) for own in pooled])
    check(made, expected, [states, weight, bias])


def check_padding(spec: str) -> None:
    """What a conditioner reads is the same whatever stands at padding; where places are left, these are compared."""
    conditioner, states = built(spec), randn(3, 5, WIDTH).detach()
    other = torch.where(VALID[..., None], states, 1e6)
    for name, made in conditioner.read(states, VALID).items():
        again = conditioner.read(other, VALID)[name]
        if name.startswith(("keys", "values")):  # these stand for every place, and the block leaves padding out
            made, again = made[VALID], again[VALID]
        assert torch.equal(made, again)


Form = Callable[[Any, Tensor, Tensor], Tensor]
"""A model, a row and the states of its auxiliary text to log-probabilities (T, V), by the textbook."""


def check_whole_model(spec: Any, form: Form) -> None:
    """GPT-2 with a conditioner on rows with auxiliary texts of several lengths; the form reads each without padding."""
    model = conditioned(backbone("gpt2"), "softmax", spec, start="random", trains="all")
    ids, given = prompt(), texts()
    found = model.distribution(ids, **given).log_probs().unflatten(0, ids.shape)
    lengths = given["aux_attention_mask"].sum(1)
    rows = []
    for row, aux, length in zip(ids, given["aux_input_ids"], lengths, strict=True):
        states = model.auxiliary_encoder(input_ids=aux[None, :length]).last_hidden_state[0]
        rows.append(form(model, row, states))
    leaves = [
        model.backbone.transformer.wte.weight, model.backbone.transformer.h[0].mlp.c_fc.weight,
        model.auxiliary_encoder.embeddings.word_embeddings.weight,
        *(p for name, p in model.conditioner.named_parameters() if not name.endswith("key.bias")),
    ]  # fmt: skip
    check(found, torch.stack(rows), leaves)


def pooled(model: Any, states: Tensor) -> Tensor:
    """All places of an auxiliary text as one vector."""
    everywhere = torch.ones(len(states), dtype=torch.bool)
    return textbook.POOLED[model.conditioner.config.pooling](states, everywhere)
