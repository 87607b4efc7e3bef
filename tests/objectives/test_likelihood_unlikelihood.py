"""Token-level unlikelihood: against its textbook form, the published numbers, and where probabilities round to 1."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.distribution import SoftmaxDistribution
from nextword.model.forward.output_layer import OutputLayer
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.helpers.trained_by_objectives import HEADS, Batch, build_objective
from tests.oracles import golden
from tests.oracles.textbook import objectives as likelihood
from tests.oracles.textbook import unlikelihood as textbook

TINY = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "tie_word_embeddings": False,
}  # fmt: skip


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mebibytes", [256, 2e-3], ids=["whole", "chunked"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("spec", HEADS)
def test_value_and_gradient(spec: str, alpha: float, mebibytes: float) -> None:
    batch = Batch(spec)
    log_probs = batch.log_probs()
    likely = likelihood.mle_sum(log_probs, batch.targets)
    unlikely = textbook.token_sum(log_probs, batch.targets)
    assert unlikely > 0
    expected = likely + alpha * unlikely
    with nw.score_memory(mebibytes):
        loss = batch.loss(build_objective({"objective": "unlikelihood", "alpha": alpha}))
        found = batch.gradients(loss.total)
    close(loss.total, expected)
    close(loss.parts["token_loss"], likely.detach() / loss.tokens)
    close(loss.parts["unlikelihood"], unlikely.detach() / loss.tokens)
    assert loss.tokens == (batch.targets != -100).sum()
    for ours, theirs in zip(found, batch.gradients(expected), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("mebibytes", [256, 2e-3], ids=["whole", "chunked"])
@pytest.mark.parametrize("spec", HEADS)
def test_value_and_gradient_where_earlier_tokens_have_most_of_the_probability(spec: str, mebibytes: float) -> None:
    batch = Batch(spec, scale=4.0)
    log_probs = batch.log_probs()
    large = [
        log_probs[b, t, token] > math.log(0.5)
        for b, t in likelihood.kept(batch.targets)
        for token in textbook.candidates(batch.targets, b, t)
    ]
    assert any(large)
    assert not all(large)
    expected = likelihood.mle_sum(log_probs, batch.targets) + textbook.token_sum(log_probs, batch.targets)
    with nw.score_memory(mebibytes):
        loss = batch.loss(build_objective("unlikelihood"))
        found = batch.gradients(loss.total)
    close(loss.total, expected)
    close(loss.parts["unlikelihood"], textbook.token_sum(log_probs, batch.targets).detach() / loss.tokens)
    for ours, theirs in zip(found, batch.gradients(expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


class ScoresMade(TorchDispatchMode):
    """How many rows of V scores products make."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size, self.rows = vocab_size, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("mm", "addmm") and made.shape[-1] == self.vocab_size:
            self.rows += len(made)
        return made


@pytest.mark.parametrize("gap", [0.1, 30.0])
def test_scores_are_made_once_and_again_where_an_earlier_token_is_likely(gap: float) -> None:
    states = torch.zeros(1, 20, 16)
    states[0, :, 3] = 0.1
    states[0, 7, 5] = gap  # earlier in the row
    states.requires_grad_()
    ids = torch.arange(20)[None] % 12
    head = build_head("softmax", 16, 40)
    bare = LlamaForCausalLM(LlamaConfig(**TINY))
    with torch.no_grad():
        bare.lm_head.weight.copy_(torch.eye(40, 16))
    context = decoder_context(head, states, ids, OutputLayer(bare))
    with ScoresMade(40) as made:
        build_objective("unlikelihood", 40)(head, context, ids[0]).total.backward()
    assert made.rows == 20 + (gap > 1)


@pytest.mark.parametrize("spec", HEADS)
def test_rows_do_not_leak_into_each_other(spec: str) -> None:
    batch = Batch(spec)
    whole = batch.loss(build_objective("unlikelihood"))
    total = torch.zeros((), dtype=torch.float64)
    for row in (2, 0, 1):
        alone = Batch(spec)
        alone.targets[torch.arange(3) != row] = -100
        total = total + alone.loss(build_objective("unlikelihood")).total.detach()
    close(whole.total.detach(), total)


def test_evaluation_is_the_likelihood() -> None:
    batch = Batch()
    loss = batch.loss(build_objective("unlikelihood", training=False))
    close(loss.total, likelihood.mle_sum(batch.log_probs(), batch.targets))
    assert set(loss.parts) == {"token_loss"}


@pytest.mark.parametrize("empty", ["no targets", "one target a row"])
def test_rows_without_candidates(empty: str) -> None:
    batch = Batch()
    kept = torch.zeros_like(batch.mask)
    kept[:, 5] = empty == "one target a row"
    batch.targets = batch.targets.masked_fill(~kept, -100)
    loss = batch.loss(build_objective("unlikelihood"))
    close(loss.total.detach(), batch.loss(build_objective("mle")).total.detach())
    assert loss.parts["unlikelihood"] == 0
    assert all(grad.isfinite().all() for grad in batch.gradients(loss.total))
    assert loss.tokens == kept.sum()


def published():
    numbers = golden.load("objectives/ul_token_b1")
    logits = numbers["logits"].clone().requires_grad_()
    return numbers, logits, numbers["target"], int(numbers["pad_id"])


def test_textbook_form_gives_the_published_numbers() -> None:
    numbers, logits, targets, pad = published()
    log_probs = logits.log_softmax(-1)
    found = textbook.token_sum(log_probs, targets, always=frozenset({pad}))
    close(found, numbers["ul_sum"])
    close(likelihood.mle_sum(log_probs, targets) + found, numbers["loss_sum"])


def test_published_numbers() -> None:
    """There padding is a candidate everywhere, here nowhere: its terms are put back."""
    numbers, logits, targets, pad = published()
    assert pad not in targets
    head, vocabulary = build_head("softmax", 16, 16), LinearVocabulary(torch.eye(16, dtype=torch.float64))
    context = decoder_context(head, logits, targets, vocabulary)
    loss = build_objective("unlikelihood", 16)(head, context, targets[0])
    of_padding = -head(context).log_complement(torch.full((14, 1), pad)).sum()
    close(loss.total + of_padding, numbers["loss_sum"])
    close(loss.parts["token_loss"] * 14, numbers["mle_sum"])
    close(torch.autograd.grad(loss.total + of_padding, logits)[0], numbers["grad_logits"])


def one_sided(gap: float, dtype: torch.dtype) -> tuple[SoftmaxDistribution, torch.Tensor]:
    """Token 0 is ``gap`` above three others."""
    states = torch.tensor([[gap, 0.0, -1.0, 0.5]], dtype=dtype, requires_grad=True)
    return SoftmaxDistribution(LinearVocabulary(torch.eye(4, dtype=dtype)), states), states


@pytest.mark.parametrize("gap", [-60.0, -3.0, 0.0, 0.9, 1.5, 3.0, 17.0, 40.0, 80.0, 300.0])
def test_complement_in_float32_is_as_good_as_its_scores(gap: float) -> None:
    """A score of size g is known to eps * g, so P and with it log(1 - P) to a relative eps * g."""
    (ours, states), (truth, exact_states) = one_sided(gap, torch.float32), one_sided(gap, torch.float64)
    log_probs = truth.log_probs()[0]
    summed = torch.stack([textbook.log_others(log_probs, token) for token in range(4)])
    # in float64, too, each of the two forms is exact at its own end only
    small = log_probs < math.log(0.5)
    expected = torch.where(small, torch.log1p(-log_probs.masked_fill(~small, -torch.inf).exp()), summed)
    found = ours.log_complement(torch.tensor([[0, 1, 2, 3]]))[0]
    limit = 4 * torch.finfo(torch.float32).eps * max(1.0, abs(gap)) * expected.abs()
    assert ((found - expected).abs() <= limit + torch.finfo(torch.float32).tiny).all()
    wanted = torch.autograd.grad(-expected[0], exact_states)[0]
    torch.testing.assert_close(torch.autograd.grad(-found[0], states)[0], wanted.float(), rtol=1e-5, atol=1e-7)


def test_gradient_stays_where_a_probability_rounds_to_one() -> None:
    distribution, states = one_sided(60.0, torch.float32)
    assert distribution.log_prob(torch.tensor([[0]])).exp() == 1
    (-distribution.log_complement(torch.tensor([[0]]))).sum().backward()
    assert states.grad[0, 0] == pytest.approx(1.0)
    assert states.grad[0, 1:].sum() == pytest.approx(-1.0)


def test_floor_ends_the_gradient_as_published() -> None:
    batch = Batch(scale=30.0)
    whole, cut = (build_objective({"objective": "unlikelihood", "floor": floor}) for floor in (None, 1e-5))
    limited, free = batch.loss(cut), batch.loss(whole)
    log_probs = batch.log_probs()
    expected = likelihood.mle_sum(log_probs, batch.targets)
    for b, t in likelihood.kept(batch.targets):
        for candidate in textbook.candidates(batch.targets, b, t):
            expected = expected - (1 - log_probs[b, t, candidate].exp()).clamp_min(1e-5).log()
    assert free.total > limited.total + 10
    torch.testing.assert_close(limited.total, expected, rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(batch.gradients(limited.total), batch.gradients(expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


def test_complement_where_the_others_have_no_probability() -> None:
    scores = torch.tensor([[0.0, -torch.inf, -torch.inf]], requires_grad=True)
    distribution = SoftmaxDistribution(
        LinearVocabulary(torch.eye(3)), torch.zeros(1, 3), nonlinearity=lambda given: given + scores
    )
    found = distribution.log_complement(torch.tensor([[0, 1]]))
    assert found[0].tolist() == [pytest.approx(math.log(torch.finfo(torch.float32).tiny)), 0.0]
    found.sum().backward()
    assert scores.grad.isfinite().all()


def test_complement_names_the_shape_it_needs() -> None:
    distribution, _ = one_sided(1.0, torch.float32)
    with pytest.raises(ValueError, match=r"must be \(1, K\)"):
        distribution.log_complement(torch.tensor([[0], [1]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("unlikelihood:2", "takes no arguments"),
        ({"objective": "unlikelihood", "floor": 1.0}, "less than 1"),
        ({"objective": "unlikelihood", "aplha": 1.0}, "Did you mean 'alpha'"),
    ],
)
def test_bad_settings_say_what_to_do(settings: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_objective(settings)
