"""Maximum likelihood of a cache's joint distribution (TRIME): textbook form, published numbers, specs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nextword.distribution import SoftmaxDistribution
from nextword.functional.copy_scores import CopyScores
from nextword.objectives import parse_objective
from tests.helpers.contexts import LinearVocabulary, build_head
from tests.helpers.trained_by_objectives import build_objective
from tests.oracles import golden
from tests.oracles.objective_cases import CHUNKS, EMPTY, D, V, check_empty, check_value_and_gradient
from tests.oracles.published_memories import DOUBLE, PublishedGpt2

INPUTS: dict[str, Any] = {"objective": "mle"}
LABELS: dict[str, Any] = {"objective": "mle", "memory_values": "labels"}


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=DOUBLE, atol=DOUBLE)


@pytest.mark.parametrize("mebibytes", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize(
    ("settings", "source"), [(INPUTS, False), (INPUTS, True), (LABELS, False)], ids=["inputs", "source", "labels"]
)
def test_value_and_gradient(settings: dict[str, Any], source: bool, mebibytes: float) -> None:
    check_value_and_gradient(settings, source=source, mebibytes=mebibytes)


@pytest.mark.parametrize("settings", [INPUTS, LABELS], ids=["inputs", "labels"])
@pytest.mark.parametrize("empty", EMPTY)
def test_empty_sets_give_finite_loss_and_gradient(settings: dict[str, Any], empty: str) -> None:
    check_empty(settings, empty)


def test_published_numbers_of_a_cache() -> None:
    published = PublishedGpt2()
    loss = build_objective("mle")(published.head, published.context, published.targets)
    mean = loss.total / loss.tokens
    close(mean, published.numbers["trime_loss"])
    mean.backward()
    close(published.hidden.grad, published.numbers["trime_grad_hidden"])
    close(published.weight.grad, published.numbers["trime_grad_lm_head"])


def test_published_numbers_of_a_local_memory() -> None:
    """TRIME's keys and queries are another layer than the softmax input; entry j holds target j, as ids one later."""
    numbers = golden.load("objectives/trime_train_plain")
    keys = numbers["rep"].clone().requires_grad_()
    states = numbers["softmax_input"].clone().requires_grad_()
    targets = numbers["target"]
    batch, length = targets.shape
    row = torch.arange(batch).repeat_interleave(length)
    place = torch.arange(length).repeat(batch)
    similarity = (keys @ keys.mT).flatten(0, 1) / keys.shape[-1] ** 0.5
    entries = CopyScores(targets, row, similarity, torch.arange(length) < place[:, None])
    joint = SoftmaxDistribution(
        LinearVocabulary(numbers["head_weight"]), states.flatten(0, 1), stored={"memory": entries}
    )
    loss = -joint.log_prob(targets.reshape(-1, 1)).sum()
    close(loss, numbers["local_loss_sum"])
    loss.backward()
    close(states.grad, numbers["local_grad_x"])
    close(keys.grad, numbers["local_grad_rep"])


def test_labels_without_a_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="no memory values"):
        build_objective("mle:labels").check(build_head("mos:3", D, V))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mel", "Did you mean 'mle'"),
        ("mle:label", "'inputs' or 'labels'"),
        ({"margin": 1.0}, "objective: missing"),
    ],
)
def test_bad_specs_say_what_to_do(spec: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_objective(spec)
