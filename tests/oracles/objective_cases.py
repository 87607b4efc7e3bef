"""Random batches for comparing an objective of a cache with its textbook form: padding, repeats, empty sets, chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import nextword as nw
from nextword.heads.context import Source
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context, seq2seq_context
from tests.helpers.trained_by_objectives import build_objective
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import memory as stored
from tests.oracles.textbook import objectives as judge

B, T, D, V = 2, 10, 5, 9
CHUNKS = {"whole": 256, "chunked": 2e-3}
"""MiB for scores: room for all of them; for a few rows of V."""
EMPTY = ("no labels", "no positives", "one place")
VALUE, GRADIENT = 1e-10, 1e-9
"""Both sides compute in float64, by other formulas; a gradient sums over more terms."""


class Case:
    """A row padded on the left, a source padded on the right, few words, and no label at the first places."""

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


def run(case: Case, settings: dict[str, Any], *, source: bool) -> Tensor:
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
    loss = build_objective(settings)(head, context, targets[counted])
    return loss.total / max(loss.tokens, 1)


def textbook_loss(case: Case, settings: dict[str, Any], *, source: bool) -> Tensor:
    """The same by the textbook."""
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


def check_value_and_gradient(settings: dict[str, Any], *, source: bool, mebibytes: float) -> None:
    """Of an objective of a cache over the decoder's past, or over a source."""
    case, again = Case(), Case()
    expected = textbook_loss(case, settings, source=source)
    with nw.score_memory(mebibytes):
        found = run(again, settings, source=source)
        found.backward()
    expected.backward()
    torch.testing.assert_close(found, expected, rtol=VALUE, atol=VALUE)
    for name in ("states", "weight", "encoder"):
        theirs, ours = getattr(case, name).grad, getattr(again, name).grad
        if theirs is None:
            assert ours is None
        else:
            torch.testing.assert_close(ours, theirs, rtol=GRADIENT, atol=GRADIENT)


def check_empty(settings: dict[str, Any], empty: str) -> None:
    """Loss and gradient are finite where something that is summed over is :data:`EMPTY`."""
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
