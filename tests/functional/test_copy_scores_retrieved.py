"""Tokens that were retrieved for each position by itself, over and beside every kind of distribution."""

from __future__ import annotations

import pytest
import torch

import nextword as nw
from nextword.distribution import (
    CacheDistribution,
    FactorizedDistribution,
    Mixture,
    PointerMixture,
    Replace,
    Rerank,
    Retrieved,
    SoftmaxDistribution,
)
from nextword.distribution import TokenClasses as Classes
from nextword.functional.copy_scores import CopyScores
from tests.helpers.small_distributions import D, N, S, V, cached_entries, randn, small_scores


@pytest.fixture
def base() -> SoftmaxDistribution:
    return small_scores()


@pytest.fixture
def entries() -> CopyScores:
    """Nothing is retrieved for the first position either."""
    return cached_entries()


def kinds(base: SoftmaxDistribution, entries: CopyScores) -> dict:
    """What may stand below."""
    gate, logsigmoid = randn(N, seed=4), torch.nn.functional.logsigmoid
    classes = Classes.of(torch.arange(V) % 3)
    return {
        "mixture": Mixture([base, base], randn(N, 2, seed=5).log_softmax(-1)),
        "interpolated": PointerMixture(base, entries, logsigmoid(gate), logsigmoid(-gate)),
        "factorized": FactorizedDistribution(base.vocabulary, base.states, randn(N, 3, seed=6), classes),
        "on memory": CacheDistribution(entries, base),
        "reranked": SoftmaxDistribution(
            base.vocabulary, base.states, edits=[Rerank(randn(N, 2, D, seed=9), (4, 2), Replace())]
        ),
        "cache": base.beside({"cache": entries}),
    }


def retrieved(entries: CopyScores) -> Retrieved:
    """The same masses as ``entries``, over tokens that each position has for itself."""
    ids = torch.randint(V, (N, S), generator=torch.Generator().manual_seed(11))
    stands = torch.arange(2 * N * S).view(N, S, 2)
    return Retrieved.of(ids, entries.scores, entries.visible, stands)


def over_heads(base: SoftmaxDistribution, entries: CopyScores, weight: torch.Tensor | None = None) -> dict:
    """What a head that retrieves makes of the kinds below it."""
    found, gate = retrieved(entries), torch.nn.functional.logsigmoid
    below = kinds(base, entries)
    weight = randn(N, seed=12) if weight is None else weight
    mixed = {
        f"over {name}": PointerMixture(of, found, gate(weight), gate(-weight), "knn") for name, of in below.items()
    }
    beside = {f"beside {name}": below[name].beside({"knn": found}) for name in ("reranked", "cache")}
    return mixed | beside | {"retrieved alone": CacheDistribution(found, base, "knn")}


OVER = [
    *(f"over {name}" for name in ("mixture", "interpolated", "factorized", "on memory", "reranked", "cache")),
    *("beside reranked", "beside cache", "retrieved alone"),
]


@pytest.mark.parametrize("name", OVER)
def test_retrieved_tokens_answer_every_question(name: str, base: SoftmaxDistribution, entries: CopyScores) -> None:
    distribution = over_heads(base, entries)[name]
    log_probs, ids = distribution.log_probs(), torch.arange(V).expand(N, -1)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(N, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(distribution.log_prob(ids), log_probs)
    sources = distribution.sources(ids)
    torch.testing.assert_close(sum(sources.values()), log_probs.exp(), rtol=0, atol=1e-12)
    positions = distribution.positions()["knn"]
    by_token = torch.zeros(N, V, dtype=torch.float64).scatter_add(1, retrieved(entries).ids, positions)
    torch.testing.assert_close(by_token, sources["knn"], rtol=0, atol=1e-12)
    of_three = distribution.token_positions(torch.full((N,), 3))["knn"]
    torch.testing.assert_close(of_three, positions * (retrieved(entries).ids == 3))
    assert distribution.positions_in()["knn"] == "store"
    assert distribution.stands_in_store()["knn"].equal(retrieved(entries).stands)
    drawn = distribution.sample(torch.Generator().manual_seed(0), num_samples=50)
    assert (log_probs.gather(1, drawn) > -torch.inf).all()


@pytest.mark.parametrize("name", OVER)
def test_retrieved_tokens_stay_with_their_position(name: str, base: SoftmaxDistribution, entries: CopyScores) -> None:
    """In chunks, for some rows, and once computed."""
    distribution = over_heads(base, entries)[name]
    log_probs, some = distribution.log_probs(), torch.tensor([4, 1])
    with nw.score_memory(1e-4):
        torch.testing.assert_close(distribution.log_probs(), log_probs)
        torch.testing.assert_close(distribution.log_prob(torch.full((N, 1), 3)), log_probs[:, 3:4])
    torch.testing.assert_close(distribution[some].log_probs(), log_probs[some])
    assert distribution[some].stands_in_store()["knn"].equal(retrieved(entries).stands[some])
    computed = distribution.computed()
    torch.testing.assert_close(computed.log_probs(), log_probs)
    assert computed.stands_in_store()["knn"].equal(retrieved(entries).stands)


@pytest.mark.parametrize("name", ["over mixture", "over factorized", "over cache"])
def test_the_gate_and_the_retrieved_scores_get_gradients(
    name: str, base: SoftmaxDistribution, entries: CopyScores
) -> None:
    """The same in one pass as step by step; and they are finite where nothing was retrieved."""
    target, weight = torch.full((N,), 3), randn(N, seed=12).requires_grad_()
    leaves = [base.states, entries.scores, weight]
    with nw.score_memory(1e-4):
        at_once = torch.autograd.grad(over_heads(base, entries, weight)[name].log_likelihood(target), leaves)
    one_by_one = torch.autograd.grad(over_heads(base, entries, weight)[name].log_prob(target[:, None]).sum(), leaves)
    for own, other in zip(at_once, one_by_one, strict=True):
        assert own.isfinite().all()
        assert own.any()
        torch.testing.assert_close(own, other)
