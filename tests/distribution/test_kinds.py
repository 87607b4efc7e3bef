"""The kinds of NextToken that no head of tests/heads goes through, and the questions that all kinds share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.distribution import (
    Add,
    CacheDistribution,
    FactorizedDistribution,
    KnownScores,
    Mixture,
    PointerMixture,
    Replace,
    Rerank,
    SoftmaxDistribution,
    TokenClasses,
    TokenLogitEdit,
    UniqueTokens,
    WordScores,
)
from nextword.distribution.scores import in_one_product
from nextword.functional.copy_scores import CopyScores
from nextword.functional.vocab_shard import VocabShard
from tests.helpers.contexts import LinearVocabulary
from tests.helpers.small_distributions import D, N, S, V, cached_entries, randn, small_scores
from tests.oracles.textbook import heads as textbook


@pytest.fixture
def base() -> SoftmaxDistribution:
    return small_scores()


@pytest.fixture
def entries() -> CopyScores:
    return cached_entries()


def kinds(base: SoftmaxDistribution, entries: CopyScores) -> dict:
    gate = randn(N, seed=4)
    log_weights = randn(N, 2, seed=5).log_softmax(-1)
    classes = TokenClasses.of(torch.arange(V) % 3)
    return {
        "interpolated": PointerMixture(
            base, entries, torch.nn.functional.logsigmoid(gate), torch.nn.functional.logsigmoid(-gate)
        ),
        "factorized": FactorizedDistribution(base.vocabulary, base.states, randn(N, 3, seed=6), classes),
        "on memory": CacheDistribution(entries, base),
        "mixture of kinds": Mixture([base, CacheDistribution(entries, base)], log_weights),
        "replaced": SoftmaxDistribution(base.vocabulary, base.states, edits=[_edit(Replace), _edit(Add, seed=8)]),
        "reranked": SoftmaxDistribution(
            base.vocabulary, base.states, edits=[Rerank(randn(N, 2, D, seed=9), (4, 2), Replace())]
        ),
        "known scores": KnownScores(randn(N + 3, V, seed=10).requires_grad_(), torch.randperm(N + 3)[:N]),
        "stored twice": SoftmaxDistribution(
            base.vocabulary, base.states, stored={"cache": entries, "pointer": entries}
        ),
    }


def _edit(kind: type, seed: int = 7) -> TokenLogitEdit:
    ids = torch.stack([torch.randperm(V, generator=torch.Generator().manual_seed(seed + n))[:3] for n in range(N)])
    present = torch.rand(N, 3, generator=torch.Generator().manual_seed(seed)) < 0.7
    words = UniqueTokens.of(ids, torch.ones_like(present))
    return TokenLogitEdit(
        kind.__name__.lower(), WordScores(words, torch.arange(N), randn(N, 3, seed=seed), present), kind()
    )


NAMES = ["interpolated", "factorized", "on memory", "mixture of kinds", "replaced", "reranked", "known scores",
         "stored twice"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_is_a_distribution_and_all_questions_agree(name: str, base: SoftmaxDistribution, entries: CopyScores) -> None:
    distribution = kinds(base, entries)[name]
    log_probs = distribution.log_probs()
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(N, dtype=torch.float64), rtol=0, atol=1e-12)
    ids = torch.arange(V).expand(N, -1)
    torch.testing.assert_close(distribution.log_prob(ids), log_probs)
    torch.testing.assert_close(distribution.log_prob(ids[:, 3:5]), log_probs[:, 3:5])
    torch.testing.assert_close(sum(distribution.sources(ids).values()), log_probs.exp(), rtol=0, atol=1e-12)
    with nw.score_memory(1e-4):
        torch.testing.assert_close(distribution.log_probs(), log_probs)
        torch.testing.assert_close(distribution.log_prob(ids[:, 3:5]), log_probs[:, 3:5])
    some = distribution[torch.tensor([4, 1])]
    assert len(some) == 2
    torch.testing.assert_close(some.log_probs(), log_probs[[4, 1]])


@pytest.mark.parametrize("name", NAMES)
def test_places_add_up_to_sources(name: str, base: SoftmaxDistribution, entries: CopyScores) -> None:
    distribution = kinds(base, replace(entries, first_position=1))[name]
    sources, positions = distribution.sources(torch.arange(V).expand(N, -1)), distribution.positions()
    assert set(positions) == {source for source in sources if source in ("pointer", "cache")}
    for source, shares in positions.items():
        assert shares.shape == (N, 1 + S)
        by_token = torch.zeros(N, V, dtype=torch.float64).index_add(1, entries.ids[0], shares[:, 1:])
        torch.testing.assert_close(by_token, sources[source], rtol=0, atol=1e-12)
        assert not shares[:, 0].any()
    with nw.score_memory(1e-4):
        for source, shares in distribution.positions().items():
            torch.testing.assert_close(shares, positions[source])


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_and_independent_of_chunks(
    name: str, base: SoftmaxDistribution, entries: CopyScores
) -> None:
    leaves = [base.states, entries.scores]
    found = []
    for mebibytes in (64, 1e-4):
        with nw.score_memory(mebibytes):
            values = kinds(base, entries)[name].log_prob(torch.full((N, 1), 3))
            total = values[values != -torch.inf].sum()
            found.append(torch.autograd.grad(total, leaves, allow_unused=True))
    for whole, chunked in zip(*found, strict=True):
        assert (whole is None) == (chunked is None)
        if whole is not None:
            assert torch.isfinite(whole).all()
            torch.testing.assert_close(whole, chunked)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mebibytes", [64, 2e-4], ids=["at once", "in chunks"])
def test_log_likelihood_is_the_weighted_sum(
    name: str, mebibytes: float, base: SoftmaxDistribution, entries: CopyScores
) -> None:
    weight = base.vocabulary.weight.requires_grad_()
    leaves = [weight, base.states, entries.scores]
    ids, weights = torch.full((N,), 3), randn(N, seed=11)
    weights[0] = 0.0  # nothing is visible there
    distribution = kinds(base, entries)[name]
    counted = distribution.log_prob(ids[:, None])[:, 0] != -torch.inf
    expected = (distribution.log_prob(ids[:, None])[counted, 0] * weights[counted]).sum()
    with nw.score_memory(mebibytes):
        found = distribution[counted.nonzero()[:, 0]].log_likelihood(ids[counted], weights[counted])
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    for own, reference in zip(
        torch.autograd.grad(found, leaves, allow_unused=True),
        torch.autograd.grad(expected, leaves, allow_unused=True),
        strict=True,
    ):
        assert (own is None or not own.any()) if reference is None else own is not None
        if reference is not None:
            torch.testing.assert_close(own, reference, rtol=1e-12, atol=1e-13)


def test_log_likelihood_takes_one_token_and_one_weight_a_position(base: SoftmaxDistribution) -> None:
    ids = torch.zeros(N, dtype=torch.long)
    for wrong in (ids[1:], ids[:, None]):
        with pytest.raises(ValueError, match=r"ids: must be \(7,\), .* \(shape .* given"):
            base.log_likelihood(wrong)
    for weights in (torch.ones(N, 1), torch.ones(N + 1), torch.ones(1), torch.tensor(1.0)):
        with pytest.raises(ValueError, match=r"weights: must be \(7,\), .* \(shape .* given"):
            base.log_likelihood(ids, weights)
    with pytest.raises(ValueError, match="outside the vocabulary"):
        base.log_likelihood(ids - 100)
    torch.testing.assert_close(base.log_likelihood(ids), base.log_prob(ids[:, None]).sum())


@pytest.mark.parametrize("mebibytes", [float("inf"), 2e-4], ids=["at once", "in chunks"])
def test_weights_of_log_likelihood_get_no_gradient(mebibytes: float, base: SoftmaxDistribution) -> None:
    weights = torch.ones(N, requires_grad=True)
    with nw.score_memory(mebibytes):
        base.log_likelihood(torch.zeros(N, dtype=torch.long), weights).backward()
    assert weights.grad is None


def test_interpolated_is_the_textbook_form(base: SoftmaxDistribution, entries: CopyScores) -> None:
    gate = randn(N, seed=4)
    distribution = kinds(base, entries)["interpolated"]
    attended = entries.ids.expand(N, -1)
    expected = textbook.log_interpolated(gate.sigmoid(), base.log_probs(), entries.scores, attended, entries.visible)
    torch.testing.assert_close(distribution.log_probs(), expected)


def test_factorized_is_the_textbook_form(base: SoftmaxDistribution, entries: CopyScores) -> None:
    distribution = kinds(base, entries)["factorized"]
    expected = textbook.log_factorised(distribution.class_scores, base.dense(), distribution.classes.token_class)
    torch.testing.assert_close(distribution.log_probs(), expected)


def test_replace_overwrites_and_add_adds(base: SoftmaxDistribution) -> None:
    new, add = _edit(Replace), _edit(Add, seed=8)
    expected = base.dense().detach().clone()
    for n in range(N):
        for k in range(3):
            if new.words.present[n, k]:
                expected[n, new.words.ids[n, k]] = new.words.scores[n, k]
        for k in range(3):
            if add.words.present[n, k]:
                expected[n, add.words.ids[n, k]] += add.words.scores[n, k]
    edited = SoftmaxDistribution(base.vocabulary, base.states, edits=[new, add])
    torch.testing.assert_close(edited.dense(), expected)


def test_tiny_probabilities_survive_beside_huge_ones() -> None:
    states = torch.tensor([[1.0]])
    vocabulary = LinearVocabulary(torch.tensor([[0.0], [-400.0], [-300.0]]))
    row = torch.zeros(1, dtype=torch.long)
    entry = CopyScores(torch.tensor([[1]]), row, torch.tensor([[500.0]]), torch.ones(1, 1, dtype=torch.bool))
    log_probs = SoftmaxDistribution(vocabulary, states, stored={"cache": entry}).log_probs()
    # exp(-800) is zero in float32, its logarithm is not
    torch.testing.assert_close(log_probs, torch.tensor([[-500.0, 0.0, -800.0]]))


@pytest.mark.parametrize("kind", ["interpolated", "on memory", "mixture of kinds"])
def test_columns_are_those_of_what_is_asked(kind: str, base: SoftmaxDistribution, entries: CopyScores) -> None:
    """Processes that share columns must cut the rows alike, whatever asks them."""
    base.columns = VocabShard()
    base.columns.processes = 2
    assert kinds(base, entries)[kind].columns is base.columns


@pytest.mark.parametrize("level", [0.0, 1e4, -1e4, 1e6])
def test_attention_of_large_scores_keeps_its_digits(level: float) -> None:
    """Only differences of attention scores count, and they are exact here; the difference of two large sums is not."""
    states, row = torch.randn(N, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(N, dtype=torch.long)
    softmax = SoftmaxDistribution(LinearVocabulary(torch.eye(12, 3)), states)
    scores, visible = torch.randint(-3, 4, (N, 9)) + level, torch.ones(N, 9, dtype=torch.bool)
    entries = CopyScores(torch.arange(9)[None] % 5, row, scores, visible)
    gate = torch.zeros(N)
    for one in (
        CacheDistribution(entries, softmax),
        PointerMixture(softmax, entries, torch.nn.functional.logsigmoid(gate), torch.nn.functional.logsigmoid(gate)),
    ):
        torch.testing.assert_close(one.probs().sum(-1), torch.ones(N), rtol=0, atol=2e-6)
        assert sum(shares.sum(-1).max() for shares in one.positions().values()) < 1 + 2e-6


def test_added_scores_leave_out_what_the_vocabulary_rules_out(base: SoftmaxDistribution) -> None:
    bias = torch.zeros(V, dtype=torch.float64)
    bias[3] = -torch.inf
    vocabulary = LinearVocabulary(base.vocabulary.weight, bias)
    ids = torch.arange(V).expand(N, -1)
    values = Add().scores_of(vocabulary, base.states[:, None], ids)[:, 0]
    all_words = torch.ones_like(ids, dtype=torch.bool)
    words = WordScores(UniqueTokens.of(ids, all_words), torch.arange(N), values, all_words)
    edits = [TokenLogitEdit("words", words, Add()), Rerank(randn(N, 2, D, seed=9), (V, 4), Add())]
    log_probs = SoftmaxDistribution(vocabulary, base.states, edits=edits).log_probs()
    assert (log_probs[:, 3] == -torch.inf).all()
    log_probs.masked_fill(log_probs == -torch.inf, 0.0).sum().backward()
    assert torch.isfinite(base.states.grad).all()


def test_more_candidates_than_tokens_are_refused(base: SoftmaxDistribution) -> None:
    edits = [Rerank(randn(N, 1, D), (V + 1,), Replace())]
    with pytest.raises(ValueError, match=rf"at most {V} candidates, the vocabulary \({V + 1} given"):
        SoftmaxDistribution(base.vocabulary, base.states, edits=edits).log_probs()


def test_ids_that_cannot_be_asked_for_are_refused(base: SoftmaxDistribution) -> None:
    with pytest.raises(ValueError, match=f"token id {V} is outside"):
        base.sources(torch.full((N, 1), V))
    with pytest.raises(ValueError, match="token id -1 is outside"):
        base.log_prob(torch.full((N, 1), -1))


def test_sample_follows_the_distribution(base: SoftmaxDistribution, entries: CopyScores) -> None:
    distribution = kinds(base, entries)["interpolated"]
    draws = distribution.sample(torch.Generator().manual_seed(0), num_samples=20_000)
    shares = torch.stack([(draws == v).double().mean(-1) for v in range(V)], -1)
    torch.testing.assert_close(shares, distribution.probs(), rtol=0, atol=0.02)


def test_sample_of_the_whole_nucleus_cuts_nothing() -> None:
    vocabulary = LinearVocabulary(torch.randn(200_000, 1, generator=torch.Generator().manual_seed(0)) * 3)
    flat = SoftmaxDistribution(vocabulary, torch.ones(1, 1))
    seeds = [torch.Generator().manual_seed(1) for _ in range(2)]
    draws = [flat.sample(seed, num_samples=500, top_p=top_p) for seed, top_p in zip(seeds, (None, 1.0), strict=True)]
    assert torch.equal(*draws)


@pytest.mark.parametrize("offset", [0.0, -100.0, 1e4, -1e5])
def test_large_scores_keep_the_digits_that_log_softmax_keeps(offset: float, entries: CopyScores) -> None:
    scores = (randn(N, 1000) * 3 + offset).float()
    stored = CopyScores(
        entries.ids, entries.row, (entries.scores.detach() + offset).float(), torch.ones(N, S, dtype=torch.bool)
    )
    ids = torch.randint(0, 1000, (N, 20), generator=torch.Generator().manual_seed(1))
    ids[:, :5] = stored.ids
    for held in ({}, {"cache": stored}):
        ours = SoftmaxDistribution(
            LinearVocabulary(torch.eye(scores.shape[-1], dtype=scores.dtype)), scores, stored=held
        )
        wide = SoftmaxDistribution(
            LinearVocabulary(torch.eye(scores.shape[-1], dtype=torch.float64)),
            scores.double(),
            stored={name: CopyScores(e.ids, e.row, e.scores.double(), e.visible) for name, e in held.items()},
        )
        reference = (scores.log_softmax(-1).double() - scores.double().log_softmax(-1)).abs().max()
        assert (ours.log_prob(ids).double() - wide.log_prob(ids)).abs().max() <= reference + 2e-6
        assert (ours.log_probs().double() - wide.log_probs()).abs().max() <= reference + 2e-6
        torch.testing.assert_close(sum(ours.sources(ids).values()), ours.log_prob(ids).exp(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, -1000.0, 1e4])
def test_large_scores_of_classes_keep_the_digits_that_log_softmax_keeps(offset: float) -> None:
    scores, of_classes = (randn(N, 1000) * 3 + offset).float(), (randn(N, 3, seed=1) * 3).float()
    classes = TokenClasses.of(torch.randint(0, 3, (1000,), generator=torch.Generator().manual_seed(1)))
    # (of such a vocabulary every way to its scores gives the same ones, to the last bit)
    ours = FactorizedDistribution(LinearVocabulary(torch.eye(1000)), scores, of_classes, classes)
    wide = torch.empty(N, 1000, dtype=torch.float64)
    reference, mass = torch.zeros(()), []
    for members, of_class in zip(classes.members, of_classes.double().log_softmax(-1).unbind(-1), strict=True):
        own = scores[:, members]
        wide[:, members] = own.double().log_softmax(-1) + of_class[:, None]
        reference = (own.log_softmax(-1).double() - own.double().log_softmax(-1)).abs().max().maximum(reference)
        mass.append(scores.double().log_softmax(-1)[:, members].exp().sum(-1).log())
    assert (ours.log_probs().double() - wide).abs().max() <= reference + 2e-6
    ids = torch.arange(N)[:, None]
    torch.testing.assert_close(ours.log_prob(ids), ours.log_probs().gather(1, ids), rtol=0, atol=1e-6)
    assert (ours.log_softmax_class_mass().double() - torch.stack(mass, -1)).abs().max() <= reference + 2e-6


def test_a_product_made_beforehand_is_used_once(base: SoftmaxDistribution) -> None:
    """Asking uses its scores up, so a second question makes its own."""
    other = SoftmaxDistribution(base.vocabulary, randn(N, D, seed=9))
    ids = torch.arange(2).expand(N, -1)
    with torch.no_grad():
        for part, whole in zip(in_one_product([base, other]), (base, other), strict=True):
            for _ in range(2):
                torch.testing.assert_close(part._log_prob(ids), whole.log_prob(ids))
            torch.testing.assert_close(part._log_probs(), whole.log_probs())


def test_sample_cuts(base: SoftmaxDistribution) -> None:
    generator = torch.Generator().manual_seed(0)
    _, best = base.top_k(2)
    draws = base.sample(generator, num_samples=300, top_k=2)
    assert all(set(draws[n].tolist()) == set(best[n].tolist()) for n in range(N))
    assert torch.equal(base.sample(generator, top_p=1e-6), best[:, :1])
    assert torch.equal(base.sample(generator, temperature=1e-4), best[:, :1])


def test_one_position_and_none(base: SoftmaxDistribution) -> None:
    assert base[:1].log_probs().shape == (1, V)
    nothing = base[:0]
    assert nothing.log_probs().shape == (0, V)
    assert nothing.log_prob(torch.empty(0, 1, dtype=torch.long)).shape == (0, 1)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda d: d.top_k(0), r"the vocabulary's 11 tokens \(0 given"),
        (lambda d: d.top_k(12), r"the vocabulary's 11 tokens \(12 given"),
        (lambda d: d.sample(temperature=0.0), "temperature must be more than 0"),
        (lambda d: d.sample(top_p=1.5), "top_p must be more than 0 and at most 1"),
        (lambda d: d.sample(top_k=0), r"top_k must be at least 1 \(0 given"),
        (lambda d: d.log_prob(torch.zeros(2, 1, dtype=torch.long)), r"must be \(7, K\)"),
        (lambda d: d.sources(torch.zeros(2, 1, dtype=torch.long)), r"must be \(7, K\)"),
    ],
)
def test_senseless_questions(base: SoftmaxDistribution, question, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        question(base)


@pytest.mark.parametrize("given", [0, -1, float("nan"), True])
def test_score_memory_needs_a_positive_number(given: Any) -> None:
    with pytest.raises(ValueError, match="a positive number"), nw.score_memory(given):
        pass


def test_words_that_may_occur_twice_are_refused(entries: CopyScores) -> None:
    """A word given twice would be changed twice, and the outcome would still be a distribution."""
    edit = object.__new__(TokenLogitEdit)  # the types that the tests check at run time would refuse it before
    object.__setattr__(edit, "words", entries)
    with pytest.raises(TypeError, match=r"WordScores.*\(CopyScores given"):
        edit.__post_init__()
