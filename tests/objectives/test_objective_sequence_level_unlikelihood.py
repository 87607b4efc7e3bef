"""Sequence-level unlikelihood without a model: n-grams, the loss, the draw, the spec."""

from __future__ import annotations

import copy

import pytest
import torch

import nextword as nw
from nextword.objectives import objective_spec, parse_objective
from nextword.objectives.objective import SequenceConfig, SequenceUpdates, Written, repeated_ngrams
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.helpers.trained_by_objectives import HEADS, Batch, build_objective
from tests.oracles import golden
from tests.oracles.textbook import unlikelihood as textbook

TARGETS = 7


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("words", [1, 2, 4])
def test_repeated_ngrams(n: int, words: int) -> None:
    tokens = torch.randint(0, words, (5, 12), generator=torch.Generator().manual_seed(n))
    expected = [textbook.repeated(row, n) for row in tokens.tolist()]
    assert repeated_ngrams(tokens, n).tolist() == expected
    assert any(map(any, expected)) or n == 9 or words == 4


@pytest.mark.parametrize("shape", [(0, 5), (2, 3), (2, 0)])
def test_nothing_is_repeated_where_there_is_no_ngram(shape: tuple[int, int]) -> None:
    assert not repeated_ngrams(torch.zeros(shape, dtype=torch.long), 4).any()


def test_published_numbers() -> None:
    """The released code never looks at the last n-gram, so it marks what ours marks in all but the last token."""
    numbers = golden.load("objectives/ul_seq_n4")
    tokens, n = numbers["tokens"], int(numbers["n"])
    marks = repeated_ngrams(tokens, n)
    assert marks.sum() == 17
    published = torch.nn.functional.pad(repeated_ngrams(tokens[:, :-1], n), (0, 1))
    assert torch.equal(published, numbers["mask"].bool())
    assert published.sum() == 13

    logits = numbers["logits"].requires_grad_()
    size = logits.shape[-1]
    head, vocabulary = build_head("softmax", size, size), LinearVocabulary(torch.eye(size, dtype=torch.float64))
    written = Written(tokens, published)
    context = decoder_context(head, logits, tokens, vocabulary, counted=written.asked)
    samples = int(numbers["sample_size"])
    loss = SequenceUpdates(SequenceConfig(n=n))(head, context, written, samples)
    close(loss.total, numbers["loss_sum"])
    close(torch.autograd.grad(loss.total, logits)[0], numbers["grad_logits"])
    close(loss.parts["sequence_loss"] * samples, numbers["loss_sum"])
    assert loss.parts["repeated"] == pytest.approx(13 / 48)


@pytest.mark.parametrize("mebibytes", [256, 2e-3], ids=["whole", "chunked"])
@pytest.mark.parametrize("spec", HEADS)
def test_value_and_gradient(spec: str, mebibytes: float) -> None:
    batch = Batch(spec)
    tokens = torch.tensor([[1, 2, 1, 2, 1, 2, 3, 4], [5, 5, 5, 6, 5, 5, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7]])
    updates = SequenceUpdates(SequenceConfig(n=2))
    expected = textbook.sequence_sum(batch.log_probs(), tokens, 2) / tokens.numel()
    assert expected > 0
    written = updates.written(tokens)
    with nw.score_memory(mebibytes):
        loss = updates(batch.head, batch.context(written.asked), written, TARGETS)
        found = batch.gradients(loss.total)
    close(loss.total, expected * TARGETS)
    close(loss.parts["sequence_loss"], expected.detach())
    assert loss.tokens == TARGETS
    for ours, theirs in zip(found, batch.gradients(expected * TARGETS), strict=True):
        close(ours, theirs)


def test_nothing_repeated_is_a_loss_of_zero_with_a_gradient_for_every_parameter() -> None:
    batch = Batch("softmax+r:3")
    updates = SequenceUpdates(SequenceConfig())
    written = updates.written(torch.arange(24).view(3, 8) % 9)
    loss = updates(batch.head, batch.context(written.asked), written, TARGETS)
    assert loss.total == 0
    assert loss.parts["repeated"] == 0
    leaves = [batch.weight, *batch.head.parameters()]
    assert all(not grad.any() for grad in torch.autograd.grad(loss.total, leaves))


def test_the_draw_repeats_itself_and_comes_at_its_rate() -> None:
    updates = SequenceUpdates(SequenceConfig(rate=0.25))
    drawn = [updates.advance() for _ in range(2000)]
    assert updates.step == 2000
    assert 0.21 < sum(drawn) / 2000 < 0.29
    again = SequenceUpdates(SequenceConfig(rate=0.25))
    resumed = None
    for number, expected in enumerate(drawn[:50]):
        if number == 20:
            resumed = copy.deepcopy(again.state_dict())
        assert again.advance() == expected
    fresh = SequenceUpdates(SequenceConfig(rate=0.25))
    fresh.load_state_dict(resumed)
    assert [fresh.advance() for _ in range(30)] == drawn[20:50]
    other = SequenceUpdates(SequenceConfig(rate=0.25, seed=1))
    assert [other.advance() for _ in range(50)] != drawn[:50]
    assert all(SequenceUpdates(SequenceConfig(rate=1.0)).advance() for _ in range(5))


@pytest.mark.parametrize(
    ("given", "settings", "written"),
    [
        ("mle+seq", {}, "mle+seq"),
        ("MLE + Seq:0.25", {"rate": 0.25}, "mle+seq:0.25"),
        ("unlikelihood+seq:25x50", {"prefix": 25, "continuation": 50}, "unlikelihood+seq:25x50"),
        ("face:opr,cp+seq:1,8x16", {"rate": 1.0, "prefix": 8, "continuation": 16}, "face:opr,cp+seq:1,8x16"),
        ("histalign+seq:.5", {}, "histalign+seq"),
    ],
)
def test_specs(given: str, settings: dict, written: str) -> None:
    config = parse_objective(given)
    assert config.seq == SequenceConfig(**settings)
    assert objective_spec(config) == written
    assert parse_objective(config.model_dump()) == config
    assert build_objective(config).sequence is not None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mle+sqe", r"objective spec 'mle\+sqe': unknown modifier 'sqe'\. Did you mean 'seq'"),
        ("mle+seq:0.5,0.5", r"must be \+seq, .* \('\+seq:0.5,0.5' given"),
        ("mle+seq:half", r"must be \+seq"),
        ("mle+seq:", r"must be \+seq"),
        ("mle+seq+seq", "is given twice"),
        ("mle+seq:0", "more than 0"),
        ("mle+seq:2", "at most 1"),
        ("mle+seq:0x10", "at least 1"),
        ("mel+seq", "Did you mean 'mle'"),
        ({"objective": "mle", "seq": {"continuatoin": 3}}, "Did you mean 'continuation'"),
    ],
)
def test_bad_specs_say_what_to_do(spec: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_objective(spec)
