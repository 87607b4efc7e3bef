"""Every head and every objective with every conditioner."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from tests.helpers.conditioned_models import CONDITIONERS, conditioned, rows_of, texts, with_words
from tests.helpers.families import inputs, labels, tiny
from tests.helpers.head_specs import specs, with_head

HEADS: dict[str, Any] = specs() | {"softmax+ce": "softmax+ce"}
KINDS = {name: CONDITIONERS[name] for name in ("lmh:max", "dau", "bergpt:2,tied", "prefix:3")}
OBJECTIVES = [*nw.objectives.registry.names(), "mle:labels"]
LENGTHS = (7, 3, 5)


def test_every_registered_conditioner_stands_here() -> None:
    covered = {nw.conditioning.parse_conditioner(spec).conditioner for spec in CONDITIONERS.values()}
    assert covered == set(nw.conditioning.registry.names())
    assert {nw.conditioning.parse_conditioner(spec).conditioner for spec in KINDS.values()} == covered


def model_of(head: str, conditioner: str, objective: str = "mle") -> Any:
    model = conditioned(tiny("gpt2"), HEADS[head], CONDITIONERS[conditioner], objective)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.next_word_head.named_parameters():
        own = 0.15 / 2 if "partition.local" in name else 0.15
        parameter.data += own * torch.randn(parameter.shape, generator=generator)
    return model


def given_to(model: Any) -> dict[str, Tensor]:
    aux = texts(LENGTHS)
    return inputs(model) | (with_words(aux) if model.next_word_head.reads_source else aux)


def head_pairs() -> list[Any]:
    """Every head with one conditioner, in turn, and a few with all: a head sees states alone, so the rest is slow."""
    few = {"softmax", "softmax+ce", "mos:2+cpr:3,8+mi", "cache", "pg"}
    return [
        pytest.param(head, conditioner, marks=[] if head in few or place % len(KINDS) == turn else [pytest.mark.slow])
        for place, head in enumerate(HEADS)
        for turn, conditioner in enumerate(KINDS)
    ]


@cache
def seen() -> Tensor:
    return inputs(tiny("gpt2"))["attention_mask"].bool()


@pytest.mark.few(5)
@pytest.mark.parametrize(("head", "conditioner"), head_pairs())
@torch.no_grad()
def test_head_with_conditioner(head: str, conditioner: str) -> None:
    """Sums to one, knows no word that comes later, and no auxiliary text but its own."""
    model = model_of(head, conditioner)
    given = given_to(model)
    for mode in model.next_word_head.modes:
        log_probs = model.distribution(**given, mode=mode).log_probs().unflatten(0, (3, 9))
        total = log_probs.exp().sum(-1)[seen()]
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-5)
    log_probs = model.distribution(**given).log_probs().unflatten(0, (3, 9))
    later = given["input_ids"].clone()
    later[:, 6:] = later[:, 6:] % 20 + 3
    changed = model.distribution(**given | {"input_ids": later}).log_probs().unflatten(0, (3, 9))
    torch.testing.assert_close(changed[:, :6][seen()[:, :6]], log_probs[:, :6][seen()[:, :6]], rtol=1e-4, atol=1e-4)
    aux = {name: value for name, value in given.items() if name.startswith(("aux", "source"))}
    turned = model.distribution(**given | rows_of(aux, [0, 0, 1])).log_probs().unflatten(0, (3, 9))
    torch.testing.assert_close(turned[0], log_probs[0], rtol=1e-4, atol=1e-4)
    for row in (1, 2):
        positions = seen()[row]
        differences = (turned[row].exp() - log_probs[row].exp()).abs().amax(-1)[positions]
        # a sharp cache or pointer may leave next to nothing of the rest at single places
        assert differences.max() > 1e-3
        assert model.next_word_head.remembers or differences.min() > 1e-6


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("head", "conditioner"), [("softmax", "lmh:max"), ("pg", "bergpt:2,tied"), ("softmax", "prefix:3")]
)
def test_conditioned_model_passes_the_checker(head: str, conditioner: str) -> None:
    nw.check(model_of(head, conditioner), lengths=[5]).raise_if_failed()


@pytest.mark.few(5)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("conditioner", KINDS)
@pytest.mark.parametrize("head", ["softmax", "softmax+ce"])
def test_objective_with_conditioner(head: str, conditioner: str, objective: str) -> None:
    try:
        with_head("gpt2", HEADS["softmax+c" if head == "softmax+ce" else head], objective)
    except ValueError:  # refused without conditioner, so with one too
        with pytest.raises(ValueError, match=objective.partition(":")[0]):
            model_of(head, conditioner, objective)
        return
    model = model_of(head, conditioner, objective).train()
    given = given_to(model)
    loss = model(**given, labels=labels(given)).loss
    loss.backward()
    assert torch.isfinite(loss)
    grads = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert all(grad.isfinite().all() for grad in grads.values())
    reached = {name for name, grad in grads.items() if name.startswith("conditioner") and grad.abs().sum() > 0}
    expected = {name for name, _ in model.conditioner.named_parameters(prefix="conditioner")}
    # a bias of all keys moves no softmax, but for rounding
    assert {name for name in expected if not name.endswith("key.bias")} <= reached
    assert not any(name.startswith("auxiliary_encoder") for name in grads)
    model.zero_grad()
    nothing = model(**given, labels=torch.full_like(given["input_ids"], -100)).loss
    assert nothing.item() == 0
