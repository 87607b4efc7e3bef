"""Logits, log-probabilities, losses and gradients of every head, objective, conditioner and family."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

import nextword as nw
from tests.helpers.conditioned_models import CONDITIONERS, conditioned, texts, with_words
from tests.helpers.families import FAMILIES, inputs, labels, tiny
from tests.helpers.generating_models import DECODERS, HYBRIDS, headed, prompt
from tests.helpers.golden.digests import digest, or_refusal, seeded
from tests.helpers.head_specs import specs, with_head

HEADS: dict[str, Any] = specs() | {"softmax+ce": "softmax+ce"}
OBJECTIVES: dict[str, Any] = {name: name for name in nw.objectives.registry.names()} | {
    "mle:labels": "mle:labels",
    "histalign,pair_sum": {"objective": "histalign", "reduction": "pair_sum", "ranks": "valid", "base": "mle"},
}
DTYPES = {"gemma2": torch.float32}
"""Gemma 2 masks with the least number of its own precision and then computes the softmax in single precision."""
LENGTHS = (7, 3, 5)
"""Of the auxiliary texts of three rows."""
FEW_HEADS = ("softmax", "softmax+c", "cache", "pg")
"""Heads that every conditioner meets with every objective."""


def jobs() -> Iterator[tuple[str, Any]]:
    """Name of each file with what makes its content."""
    for family in FAMILIES:
        for head in HEADS:
            yield f"passes/{family}/{head}", partial(with_every_objective, family, head)
    for family in HYBRIDS:
        for head in DECODERS["gpt2"]:
            yield f"passes/{family}/{head}", partial(of_hybrid, family, head)
    for conditioner in CONDITIONERS:
        yield f"passes/conditioned/heads/{conditioner}", partial(with_every_head, conditioner)
        yield f"passes/conditioned/families/{conditioner}", partial(with_every_family, conditioner)
        for head in FEW_HEADS:
            name = f"passes/conditioned/objectives/{conditioner}/{head}"
            yield name, partial(conditioned_objectives, conditioner, head)


def with_every_objective(family: str, head: str) -> dict[str, Any]:
    """One head on one family: distributions, then a step of training of each objective."""
    made = partial(with_head, family, HEADS[head], dtype=DTYPES.get(family, torch.float64))
    found = {"distribution": or_refusal(lambda: distributions(made()))}
    for objective, spec in OBJECTIVES.items():
        found[objective] = or_refusal(partial(_trained, made, spec))
    return found


def _trained(made: Any, objective: Any) -> dict[str, Any]:
    model = made(objective=objective)
    return step(model, inputs(model))


def of_hybrid(family: str, head: str) -> dict[str, Any]:
    """One head on a family with linear attention or a state space, in the family's own precision."""

    def both() -> dict[str, Any]:
        model = copy.deepcopy(headed(family, head))
        given = {"input_ids": prompt()}
        return {"distribution": distributions(model, given), "mle": step(model, given, prompt())}

    return {"passes": or_refusal(both)}


def with_every_head(conditioner: str) -> dict[str, Any]:
    return {head: or_refusal(partial(_of_conditioned, "gpt2", head, conditioner)) for head in HEADS}


def with_every_family(conditioner: str) -> dict[str, Any]:
    return {
        f"{family} {head}": or_refusal(partial(_of_conditioned, family, head, conditioner))
        for family in FAMILIES
        for head in ("softmax", "cache")
    }


def conditioned_objectives(conditioner: str, head: str) -> dict[str, Any]:
    return {
        objective: or_refusal(partial(_of_conditioned, "gpt2", head, conditioner, spec))
        for objective, spec in OBJECTIVES.items()
    }


def _of_conditioned(family: str, head: str, conditioner: str, objective: Any = "mle") -> dict[str, Any]:
    seeded()
    model = conditioned(tiny(family), HEADS[head], CONDITIONERS[conditioner], objective)
    model = model.to(DTYPES.get(family, torch.float64)).eval()
    aux = texts(LENGTHS)
    given = inputs(model) | (with_words(aux) if model.next_word_head.reads_source else aux)
    return {"distribution": distributions(model, given), "step": step(model, given)}


@torch.no_grad()
def distributions(model: Any, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the model says about every position, in each mode of its head, and where it comes from."""
    given = given or inputs(model)
    seeded()
    found = {"logits": digest(model(**given).logits)}
    for mode in model.next_word_head.modes:
        found[f"log_probs, {mode}"] = digest(model.distribution(**given, mode=mode).log_probs())
    best = model.distribution(**given)
    log_probs, ids = best.top_k(3)
    found |= {"top 3": digest(log_probs), "ids of top 3": digest(ids)}
    return found | {f"from {name}": digest(share) for name, share in best.sources(ids).items()}


def step(model: Any, given: dict[str, Any], targets: Any = None) -> dict[str, Any]:
    """Loss and gradients, with dropout."""
    model.train()
    seeded()
    out = model(**given, labels=labels(given) if targets is None else targets)
    out.loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": digest(out.loss)} | {f"d {name}": digest(grad) for name, grad in gradients.items()}
