"""Objectives against their float64 textbook forms: every option, padding, repeats, empty sets, chunks."""

from __future__ import annotations

import pytest
import torch

import nextword as nw
from nextword.context import Source
from nextword.objectives import parse_objective
from nextword.objectives.parts.ranking import REDUCTIONS
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context, seq2seq_context
from tests.helpers.trained_by_objectives import build_objective
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import memory as stored
from tests.oracles.textbook import objectives as judge

B, T, D, V = 2, 10, 5, 9
TINY = 2e-3


class Case:
    def __init__(self, seed: int = 0, words: int = 4) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.states = torch.randn(B, T, D, generator=generator, dtype=torch.float64).requires_grad_()
        self.encoder = torch.randn(B, T + 1, D, generator=generator, dtype=torch.float64).requires_grad_()
        self.weight = torch.randn(V, D, generator=generator, dtype=torch.float64).requires_grad_()
        self.embedding = torch.randn(V, D, generator=generator, dtype=torch.float64)
        self.ids = torch.randint(0, words, (B, T), generator=generator)
        self.source_ids = torch.randint(0, words, (B, T + 1), generator=generator)
        self.source_mask = torch.ones(B, T + 1, dtype=torch.bool)
        self.source_mask[1, -3:] = False
        self.mask = torch.ones(B, T, dtype=torch.bool)
        self.mask[1, :2] = False
        self.labels = self.ids.masked_fill(~self.mask, -100)
        self.labels[0, :4] = -100


def objective(**settings):
    return build_objective(settings)


def run(case: Case, settings: dict, *, source: bool):
    """Our loss, mean over targets."""
    head = build_head("cache", D, V, source=D if source else None)
    vocabulary = LinearVocabulary(case.weight)
    targets = case.labels if source else judge.shifted(case.labels)
    if not source:
        targets = targets.masked_fill(~case.mask, -100)
    counted = targets != -100
    if source:
        side = Source(case.source_ids, case.source_mask, case.encoder)
        context = seq2seq_context(case.states, vocabulary, side, counted=counted, embedding=case.embedding)
    else:
        context = decoder_context(
            head,
            case.states,
            case.ids,
            vocabulary,
            mask=case.mask,
            counted=counted,
            embedding=case.embedding,
            labels=case.labels,
        )
    loss = objective(**settings)(head, context, targets[counted])
    return loss.total / max(loss.tokens, 1)


def textbook_loss(case: Case, settings: dict, *, source: bool):
    logits = textbook.scores(case.states, case.weight)
    targets = case.labels if source else judge.shifted(case.labels).masked_fill(~case.mask, -100)
    if source:
        memory = stored.source_memory(case.states, case.encoder, case.source_ids, case.source_mask)
        real = case.source_mask
    else:
        memory = stored.decoder_memory(case.states, case.ids, case.mask)
        real = case.mask[:, 1:] & case.mask[:, :-1]
    token_memory = judge.with_label_values(memory, case.labels) if settings.get("memory_values") == "labels" else memory
    if settings.get("base") == "mle":
        token = judge.mle(stored.log_lm_only(logits), targets)
    else:
        token = judge.trime(logits, token_memory, targets)
    if settings["objective"] == "mle":
        return token
    reduction, ranks = settings.get("reduction", "position_mean"), settings.get("ranks", "valid")
    embedding = case.weight if settings.get("embedding") == "output" else case.embedding
    rank = judge.ranking(memory, targets, embedding, settings.get("margin", 0.001), reduction, ranks, real)
    tokens = max(1, len(judge.kept(targets)))
    sums = ("pair_sum", "position_mean")
    return judge.histalign(token, rank / tokens if reduction in sums else rank, settings.get("alpha", 1.0))


SETTINGS = [
    {"objective": "mle"},
    {"objective": "mle", "memory_values": "labels"},
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


@pytest.mark.parametrize("mebibytes", [256, TINY], ids=["whole", "chunked"])
@pytest.mark.parametrize("source", [False, True], ids=["decoder", "source"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_value_and_gradient(settings: dict, source: bool, mebibytes: float) -> None:
    if source and settings.get("memory_values") == "labels":
        pytest.skip("source values are never labels")
    case, again = Case(), Case()
    expected = textbook_loss(case, settings, source=source)
    with nw.score_memory(mebibytes):
        found = run(again, settings, source=source)
        found.backward()
    expected.backward()
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    for name in ("states", "weight", "encoder"):
        theirs, ours = getattr(case, name).grad, getattr(again, name).grad
        if theirs is None:
            assert ours is None
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("empty", ["no labels", "no positives", "one place"])
def test_empty_sets_give_finite_loss_and_gradient(settings: dict, empty: str) -> None:
    case = Case()
    if empty == "no labels":
        case.labels = torch.full_like(case.labels, -100)
    elif empty == "no positives":
        case.ids = torch.arange(T).expand(B, -1) % V
        case.labels = case.ids.masked_fill(torch.arange(T) != 5, -100)
    else:
        case.labels[:, 2:] = -100
    loss = run(case, settings, source=False)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(case.states.grad).all()
    if empty == "no labels":
        assert loss == 0
        assert not case.states.grad.any()


def test_a_loss_changes_when_an_option_does() -> None:
    losses = [run(Case(), settings, source=False).item() for settings in SETTINGS]
    assert len({round(loss, 9) for loss in losses}) == len(losses)


def test_half_precision_similarities_are_ranked_and_summed_in_float32() -> None:
    case = Case()
    head = build_head("cache", D, V).bfloat16()
    states = case.states.detach().bfloat16()
    context = decoder_context(head, states, case.ids, LinearVocabulary(case.weight.detach().bfloat16()))
    assert head.entries(context).scores.dtype == torch.float32
    assert head(context).log_probs().dtype == torch.float32


@pytest.mark.parametrize(
    ("objective_spec", "head_spec", "message"),
    [("histalign", "softmax", "nothing to align"), ("mle:labels", "mos:3", "no memory values")],
)
def test_senseless_pairs_are_refused(objective_spec: str, head_spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_objective(objective_spec).check(build_head(head_spec, D, V))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mel", "Did you mean 'mle'"),
        ("mle:label", "'inputs' or 'labels'"),
        ("histalign:3", "nothing or one of paper, released, released-bart, and perhaps by 'inputs' or 'labels'"),
        ("histalign:paper,released", r"\('paper,released' given"),
        ("histalign:labels,paper", r"\('labels,paper' given"),
        ({"objective": "histalign", "marign": 1.0}, "Did you mean 'margin'"),
        ({"objective": "histalign", "alpha": -1.0}, "at least 0"),
        ({"margin": 1.0}, "objective: missing"),
    ],
)
def test_bad_specs_say_what_to_do(spec: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_objective(spec)
