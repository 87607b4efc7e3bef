"""The mixture of a head with a corpus: by scanning, sums, shares, chunks, gradients, places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.distribution import SoftmaxDistribution
from nextword.retrieval.ngram import MatchWeights, NgramModel, mixed_with_ngrams
from nextword.retrieval.ngram.ngram_index import LastTokens
from tests.helpers.contexts import LinearVocabulary
from tests.helpers.stored_texts import (
    EVIDENCE,
    LENGTHS,
    LIMIT,
    built,
    memory,
    random_documents,
    scanned_mixture,
    weights,
)

pytest.importorskip("pydivsufsort")

V, D = 7, 3


def scores(count: int, seed: int = 0) -> SoftmaxDistribution:
    chance = torch.Generator().manual_seed(seed)
    states = torch.randn(count, D, generator=chance, dtype=torch.float64)
    embedding = torch.randn(V, D, generator=chance, dtype=torch.float64)
    return SoftmaxDistribution(LinearVocabulary(embedding), states.requires_grad_())


def text(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.concatenate([random.integers(0, 4, 20), [V - 1] * 11, random.integers(0, V, 20)])


@pytest.mark.parametrize("seed", range(4))
def test_mixture_is_that_found_by_scanning(tmp_path: Path, seed: int) -> None:
    remembered, ids = memory(tmp_path / "memory", V, seed), text(seed)
    documents = [one for one in random_documents(seed, V) if one]
    base = scores(len(ids), seed)
    mixed = mixed_with_ngrams(base, remembered, remembered.find(LastTokens.of_text(ids)), torch.float64)
    with torch.no_grad():
        probs, head = mixed.probs().numpy(), base.probs().numpy()
    for place in range(len(ids)):
        expected = scanned_mixture(documents, ids[: place + 1].tolist(), head[place], remembered.weights)
        assert probs[place] == pytest.approx(expected, abs=1e-14)
    assert abs(probs.sum(1) - 1).max() < 1e-14
    assert abs(probs - head).max() > 0.1


@torch.no_grad()
def test_questions_agree(tmp_path: Path) -> None:
    remembered, ids = memory(tmp_path / "memory", V), text(0)
    mixed = mixed_with_ngrams(scores(len(ids)), remembered, remembered.find(LastTokens.of_text(ids)), torch.float64)
    log_probs = mixed.log_probs()
    every = torch.arange(V).expand(len(ids), V)
    torch.testing.assert_close(mixed.log_prob(every), log_probs)
    torch.testing.assert_close(mixed.computed().log_probs(), log_probs)
    torch.testing.assert_close(sum(mixed.sources(every).values()), log_probs.exp())
    assert mixed.sources(every)["text"].max() > 0.1
    with nw.score_memory(1e-4):
        torch.testing.assert_close(mixed.log_probs(), log_probs)
    torch.testing.assert_close(mixed[10:20].log_probs(), log_probs[10:20])


def test_gradients_reach_the_head(tmp_path: Path) -> None:
    remembered, ids = memory(tmp_path / "memory", V), text(1)
    found = remembered.find(LastTokens.of_text(ids))
    targets = torch.from_numpy(np.roll(ids, -1))
    gradients = []
    for ask in (
        lambda mixed: mixed.log_likelihood(targets),
        lambda mixed: mixed.log_prob(targets[:, None]).sum(),
        lambda mixed: mixed._log_probs().gather(1, targets[:, None]).sum(),
    ):
        base = scores(len(ids), 5)
        ask(mixed_with_ngrams(base, remembered, found, torch.float64)).backward()
        gradients.append(base.states.grad)
    torch.testing.assert_close(gradients[1], gradients[0])
    torch.testing.assert_close(gradients[2], gradients[0])
    assert gradients[0].abs().max() > 0


def test_single_precision_stays_single(tmp_path: Path) -> None:
    remembered, ids = memory(tmp_path / "memory", V), text(2)
    base = SoftmaxDistribution(LinearVocabulary(torch.randn(V, D)), torch.randn(len(ids), D))
    mixed = mixed_with_ngrams(base, remembered, remembered.find(LastTokens.of_text(ids)))
    assert mixed.log_probs().dtype == mixed.log_prob(torch.zeros(len(ids), 1, dtype=torch.long)).dtype == torch.float32
    assert abs(mixed.probs().sum(-1) - 1).max() < 1e-6


@torch.no_grad()
def test_a_token_after_a_thousand_places_adds_up_in_single_precision(tmp_path: Path) -> None:
    """One place of a long match beside many of a short one, each of which is lost beside the sum so far."""
    documents = [[5, 6, 1, 2, 3], *([place % 3, 1, 2, 3] for place in range(900))]
    shares = [[0.001, 0.7, 0.2, 0.099]] * len(LENGTHS)
    rare_and_frequent = MatchWeights(evidence=EVIDENCE, lengths=LENGTHS, shares=shares)
    remembered, ids = NgramModel(built(tmp_path / "memory", documents, V), rare_and_frequent), np.array([5, 6, 1, 2])
    base = SoftmaxDistribution(LinearVocabulary(torch.randn(V, D)), torch.randn(len(ids), D))
    mixed = mixed_with_ngrams(base, remembered, remembered.find(LastTokens.of_text(ids)))
    every = torch.arange(V).expand(len(ids), V)
    assert abs(mixed.probs().double().sum(-1) - 1).max() < 1e-6
    assert abs(mixed.log_prob(every).double().exp().sum(-1) - 1).max() < 1e-6


def test_nothing_found_leaves_the_head_alone(tmp_path: Path) -> None:
    remembered = NgramModel(built(tmp_path / "memory", [[1, 2]], V), weights())
    base = scores(3)
    mixed = mixed_with_ngrams(base, remembered, remembered.find(LastTokens.of_text(np.array([3, 4, 5]))), torch.float64)
    assert torch.equal(mixed.log_probs(), base.log_probs())


def test_origins_are_places_with_their_shares(tmp_path: Path) -> None:
    index = built(tmp_path / "memory", [[5, 6, 1, 2], [3, 5, 6, 1], [4, 6, 1]], V)
    shares = [[0.4, 0.3, 0.2, 0.1]] * len(LENGTHS)
    remembered = NgramModel(index, MatchWeights(evidence=EVIDENCE, limit=LIMIT, lengths=LENGTHS, shares=shares))
    context = np.array([5, 6])
    origins = remembered.origins(context, 1)
    assert remembered.origins(context.tolist(), 1) == origins
    assert sorted((one.position.document, one.position.offset) for one in origins) == [
        ("document 0", 2),
        ("document 1", 3),
    ]
    assert [one.share for one in origins] == pytest.approx([0.25, 0.25])  # two of two places; the last level has none
    mixed = mixed_with_ngrams(scores(2), remembered, remembered.find(LastTokens.of_text(context)))
    assert float(mixed.sources(torch.tensor([[1], [1]]))["text"][1, 0].detach()) == pytest.approx(0.5)
    assert mixed.positions_in()["text"] == "store"
    shares = mixed.token_positions(torch.tensor([1, 1]))["text"][1].detach()
    stands = mixed.stands_in_store()["text"][1]
    told = {tuple(place): share for place, share in zip(stands.tolist(), shares.tolist(), strict=True) if share}
    assert told == pytest.approx({(0, 2): 0.25, (1, 3): 0.25})
    assert remembered.origins(context, 3) == remembered.origins(context[:0], 1) == []
    assert len(remembered.origins(context, 1, most=1)) == 1


def test_a_smaller_vocabulary_is_refused(tmp_path: Path) -> None:
    remembered = memory(tmp_path / "memory", V + 1)
    with pytest.raises(ValueError, match=r"8 tokens or more \(7"):
        mixed_with_ngrams(scores(1), remembered, remembered.find(LastTokens.of_text(np.array([1]))))


def test_weights_of_another_tokenizer_are_refused(tmp_path: Path) -> None:
    built(tmp_path / "memory", [[1, 2]], V)
    weights().model_copy(update={"tokenizer": "a" * 64}).save(tmp_path / "weights.json")
    with pytest.raises(ValueError, match=r"\(aaaaaaaaaaaa given"):
        NgramModel.open(tmp_path / "memory", tmp_path / "weights.json")
    weights().model_copy(update={"tokenizer": "f" * 64}).save(tmp_path / "weights.json")
    assert len(NgramModel.open(tmp_path / "memory", tmp_path / "weights.json").index) == 1
