"""F2-Softmax against a textbook computation of the paper's equations: values, gradients, decoupled decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nextword.distribution import ClassDraw, Factorized, TokenClasses
from nextword.functional.truncate import truncated
from tests.helpers.contexts import LinearVocabulary
from tests.oracles import golden


@pytest.fixture
def numbers() -> dict[str, Any]:
    return golden.load("objectives/f2_head")


def factorized(numbers: dict[str, Any]) -> Factorized:
    """The distribution at all positions, with gradients of states and both embeddings."""
    for name in ("hidden", "class_emb", "out_emb"):
        numbers[name].requires_grad_()
    states = numbers["hidden"].flatten(0, 1)
    return Factorized(
        LinearVocabulary(numbers["out_emb"]),
        states,
        states @ numbers["class_emb"].T,
        TokenClasses.of(numbers["token_class"]),
    )


def test_loss_and_gradients(numbers: dict[str, Any]) -> None:
    labels = numbers["labels"].flatten()
    counted = (labels != -100).nonzero()[:, 0]
    log_prob = factorized(numbers)[counted].log_prob(labels[counted, None])
    loss = -log_prob.mean()
    torch.testing.assert_close(loss, numbers["loss"], rtol=0, atol=1e-12)
    torch.testing.assert_close(loss.exp(), numbers["ppl"], rtol=1e-12, atol=0)
    loss.backward()
    for name in ("hidden", "class_emb", "out_emb"):
        torch.testing.assert_close(numbers[name].grad, numbers[f"grad_{name}"], rtol=0, atol=1e-12)


def test_both_factors_and_their_product(numbers: dict[str, Any]) -> None:
    distribution = factorized(numbers)
    shape = numbers["labels"].shape
    torch.testing.assert_close(distribution.log_probs().unflatten(0, shape), numbers["logp_full"], rtol=0, atol=1e-12)
    torch.testing.assert_close(
        distribution.log_class_probs().unflatten(0, shape), numbers["logp_class"], rtol=0, atol=1e-12
    )
    everything = torch.arange(distribution.vocab_size).expand(len(distribution), -1)
    torch.testing.assert_close(distribution.log_prob(everything), distribution.log_probs(), rtol=0, atol=1e-12)
    inside = numbers["logp_token_in_class"].flatten(0, 1)
    for chosen in range(3):
        found = distribution.within(torch.full((len(distribution),), chosen))
        own = numbers["token_class"] == chosen
        torch.testing.assert_close(found[:, own], inside[:, own], rtol=0, atol=1e-12)
        assert (found[:, ~own] == -torch.inf).all()


@torch.no_grad()
def test_greedy_decoding_takes_the_class_first(numbers: dict[str, Any]) -> None:
    distribution = factorized(numbers)
    scores = ClassDraw(sample=False)(distribution)
    tokens = scores.argmax(-1)
    assert torch.equal(numbers["token_class"][tokens], numbers["greedy_class"].flatten())
    assert torch.equal(tokens, numbers["greedy_token"].flatten())
    assert torch.equal(distribution.log_probs().argmax(-1), numbers["full_argmax"].flatten())
    assert int((tokens != numbers["full_argmax"].flatten()).sum()) == 2  # decoupled greedy is another decoding


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "cut"),
    [("topk3_given_greedy_class", {"top_k": 3}), ("nucleus08_given_greedy_class", {"top_p": 0.8})],
)
def test_cuts_act_within_the_class(numbers: dict[str, Any], name: str, cut: dict[str, Any]) -> None:
    scores = ClassDraw(sample=False)(factorized(numbers))
    found = truncated(scores, **cut).softmax(-1)
    expected = numbers[name].flatten(0, 1)
    expected = expected.exp() if bool((expected < 0).any()) else expected
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
