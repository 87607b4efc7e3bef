"""HistAlign in every form: textbook form, published numbers, specs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from nextword.functional.copy_scores import CopyScores
from nextword.heads.cache import CacheHead
from nextword.heads.context import Context, Source
from nextword.objectives import Objective, parse_objective
from nextword.objectives.histalign import REDUCTIONS
from tests.helpers.contexts import build_head
from tests.helpers.trained_by_objectives import build_objective
from tests.oracles.objective_cases import CHUNKS, EMPTY, Case, D, V, check_empty, check_value_and_gradient, run
from tests.oracles.published_memories import DOUBLE, PublishedBart, PublishedGpt2

SETTINGS = [
    {"objective": "histalign"},
    {"objective": "histalign", "base": "mle", "alpha": 0.5},
    {"objective": "histalign", "memory_values": "labels"},
    {"objective": "histalign", "embedding": "output", "margin": 0.3},
    *(
        {"objective": "histalign", "reduction": reduction, "ranks": ranks, "margin": 0.3, "alpha": 0.7}
        for reduction in REDUCTIONS
        for ranks in ("all", "valid")
    ),
]


@pytest.mark.few(9)
@pytest.mark.parametrize("mebibytes", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("source", [False, True], ids=["decoder", "source"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_value_and_gradient(settings: dict[str, Any], source: bool, mebibytes: float) -> None:
    if source and settings.get("memory_values") == "labels":
        pytest.skip("source values are never labels")
    check_value_and_gradient(settings, source=source, mebibytes=mebibytes)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("empty", EMPTY)
def test_empty_sets_give_finite_loss_and_gradient(settings: dict[str, Any], empty: str) -> None:
    check_empty(settings, empty)


def test_a_loss_changes_when_an_option_does() -> None:
    likelihoods = [{"objective": "mle"}, {"objective": "mle", "memory_values": "labels"}]
    losses = [run(Case(), settings, source=False).item() for settings in likelihoods + SETTINGS]
    assert len({round(loss, 9) for loss in losses}) == len(losses)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=DOUBLE, atol=DOUBLE)


def released(form: str, numbers: dict[str, Any]) -> Objective:
    """A released form with the margin and weight of the file."""
    settings = {name: numbers[name].item() for name in ("margin", "alpha")}
    return build_objective(parse_objective(f"histalign:{form}").model_dump() | settings)


class RankingPadding(CacheHead):
    """Stores padding as the released BART code does: never visible, but with ranks of its own."""

    def entries(self, context: Context) -> CopyScores:
        return replace(super().entries(context), stored=None)


def test_published_numbers_of_the_past() -> None:
    published = PublishedGpt2()
    numbers = published.numbers
    loss = released("released", numbers)(published.head, published.context, published.targets)
    close(loss.parts["token_loss"], numbers["hist_term_trime"])
    close(loss.parts["ranking_loss"], numbers["hist_term_rank"])
    mean = loss.total / loss.tokens
    close(mean, numbers["hist_loss"])
    mean.backward()
    close(published.hidden.grad, numbers["hist_grad_hidden"])
    close(published.weight.grad, numbers["hist_grad_lm_head"])


def test_published_cross_entropy() -> None:
    published = PublishedGpt2()
    objective = build_objective({"objective": "histalign", "base": "mle", "alpha": 0.0})
    loss = objective(published.head, published.context, published.targets)
    close(loss.total / loss.tokens, published.numbers["ce_loss"])


def test_published_numbers_of_a_source() -> None:
    published = PublishedBart()
    numbers, head = published.numbers, published.head
    likelihood = build_objective("mle")(head, published.context, published.targets)
    close(likelihood.total / likelihood.tokens, numbers["trime_loss"])
    loss = released("released-bart", numbers)(
        RankingPadding(head.config, head.dimensions), published.context, published.targets
    )
    close(loss.parts["ranking_loss"], numbers["hist_term_rank"])
    mean = loss.total / loss.tokens
    close(mean, numbers["hist_loss"])
    mean.backward()
    close(published.encoder.grad, numbers["hist_grad_enc"])
    close(published.decoder.grad, numbers["hist_grad_dec"])
    close(published.weight.grad, numbers["hist_grad_lm_head"])


def test_padding_of_a_source_has_no_rank() -> None:
    """The number that the released code gives where the row's padding is cut off is ours with padding."""
    published = PublishedBart()
    numbers, head, context, targets = published.numbers, published.head, published.context, published.targets
    loss = released("released-bart", numbers)
    assert abs(loss(head, context, targets).parts["ranking_loss"] - numbers["hist_term_rank"]) > 0.1
    source, only = context.source, (context.row == 1).nonzero()[:, 0]
    real = int(source.valid[1].sum())
    cut = Source(source.ids[:, :real], source.valid[:, :real], source.states[:, :real])
    alone, ours = (replace(context, source=one).at(only) for one in (cut, source))
    theirs = loss(RankingPadding(head.config, head.dimensions), alone, targets[only])
    close(loss(head, ours, targets[only]).total, theirs.total)


def test_a_head_without_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to align"):
        build_objective("histalign").check(build_head("softmax", D, V))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("histalign:3", "nothing or one of paper, released, released-bart, and perhaps by 'inputs' or 'labels'"),
        ("histalign:paper,released", r"must be followed by .*\('paper,released' given\)"),
        ("histalign:labels,paper", r"must be followed by .*\('labels,paper' given\)"),
        ({"objective": "histalign", "marign": 1.0}, "Did you mean 'margin'"),
        ({"objective": "histalign", "alpha": -1.0}, "at least 0"),
    ],
)
def test_bad_specs_say_what_to_do(spec: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_objective(spec)
