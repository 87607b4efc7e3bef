"""Textbook forms of partitions and pointers against published numbers, and against sums worked out by hand.

No golden file has the token with id 100, which the published partitions never touch, so this difference shows nowhere.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.oracles.published import Published, partitions_of, pointer_form
from tests.oracles.textbook import heads, partitions, pointers

EXACT = {"rtol": 1e-9, "atol": 1e-11}
GPT2 = ["gpt2_C", "gpt2_C_Mi", "gpt2_R5", "gpt2_R5_20", "gpt2_P_add", "gpt2_CP", "gpt2_CPR5_20_Mi"]
T5 = ["t5_E", "t5_D", "t5_CE", "t5_CEPR5", "t5_R5_20"]
POINTERS = ["gpt2_CopyNet", "gpt2_cache", "t5_CopyNet", "t5_PG", "t5_PS"]
PADDED, SPECIAL = 0, 100
"""Ids of padding, and of the token that the published code leaves out."""


def partition_form(published: Published, padding_counts: bool) -> Tensor:
    parts, source = partitions_of(published), published.source(padding_counts)
    return partitions.log_partitioned(parts, published.text(), published.weight, source)


def check(published: Published, log_probs: Tensor) -> None:
    """Values, loss and gradients of everything that the golden file has gradients of."""
    torch.testing.assert_close(log_probs, published.log_probs, **EXACT)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones_like(log_probs[..., 0]), **EXACT)
    loss = published.loss(log_probs)
    torch.testing.assert_close(loss, published.data["loss_f64"], **EXACT)
    found = torch.autograd.grad(loss, list(published.leaves.values()), materialize_grads=True)
    for name, gradient in zip(published.leaves, found, strict=True):
        torch.testing.assert_close(
            gradient, published.gradient(name), **EXACT, msg=lambda text, name=name: f"{name}: {text}"
        )
        assert name in ("hidden_all", "encoder_hidden") or gradient.abs().max() > 1e-6, name


@pytest.mark.parametrize("name", GPT2 + T5)
def test_partitions_match_the_published_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published = Published(name)
    parts, source = partitions_of(published), published.source(padding_counts=True)

    def log_probs() -> Tensor:
        return partitions.log_partitioned(parts, published.text(), published.weight, source)

    torch.testing.assert_close(log_probs(), published.log_probs, rtol=0, atol=2e-7)
    form = partitions.word_values

    def with_epsilon(query, positions, projection, local, weight):
        # published: the sum over a word's places is divided by their number plus this
        epsilon = 1e-10 if projection is not None and projection is parts.encoder else 1e-8
        values = form(query, positions, projection, local, weight)
        return {v: value * len(positions[v]) / (len(positions[v]) + epsilon) for v, value in values.items()}

    monkeypatch.setattr(partitions, "word_values", with_epsilon)
    check(published, log_probs())


@pytest.mark.parametrize("name", POINTERS)
def test_pointers_match_the_published_values(name: str) -> None:
    published = Published(name)
    check(published, pointer_form(published, padding_counts=True))


def test_no_golden_file_has_the_token_that_is_published_as_special() -> None:
    for name in GPT2 + T5 + POINTERS:
        published = Published(name)
        assert SPECIAL not in published.ids, name
        assert not published.is_t5 or SPECIAL not in published.data["encoder_ids"], name


def padded_row(name: str) -> tuple[Tensor, Tensor, Published]:
    """Published and our log-probabilities of the row whose source ends with padding; the other row is the same."""
    published = Published(name)
    form = pointer_form if name in POINTERS else partition_form
    ours = form(published, False).detach()
    torch.testing.assert_close(ours[0], published.log_probs[0], rtol=0, atol=2e-7)
    return published.log_probs[1], ours[1], published


@pytest.mark.parametrize("name", ["t5_E", "t5_CE", "t5_CEPR5", "t5_CopyNet", "t5_PS"])
def test_padding_moves_its_own_token_only(name: str) -> None:
    """Padding is published as the word 0 of the source: without it only the odds of that word change."""
    theirs, ours, published = padded_row(name)
    others = torch.arange(120) != PADDED
    for side in (theirs, ours):
        side -= side[:, others].logsumexp(-1, keepdim=True)
    torch.testing.assert_close(ours[:, others], theirs[:, others], rtol=0, atol=2e-7)
    moved = (ours[:, PADDED] - theirs[:, PADDED]).abs() > 1e-3
    if partitions_of(published).context is None:
        assert moved.all()
    else:  # the start token has id 0 too, and from the second position on it is a word of the decoder's context
        assert moved.tolist() == [True] + [False] * 9


def test_padding_takes_attention_from_the_words_of_the_source() -> None:
    theirs, ours, published = padded_row("t5_PG")
    words = published.data["encoder_ids"][1, published.data["encoder_mask"][1].bool()].unique()
    never = torch.ones(120, dtype=torch.bool)
    never[words] = never[PADDED] = False
    torch.testing.assert_close(ours[:, never], theirs[:, never], **EXACT)  # the gate does not look at the source
    assert (ours[:, words] > theirs[:, words]).all()
    assert (ours[:, PADDED] < theirs[:, PADDED]).all()


def row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def times(factor: float) -> partitions.Map:
    return row(factor)[None], None


def test_places_by_hand() -> None:
    ids = torch.tensor([[7, 3, 7, 3, 5]])
    text = partitions.Text(torch.zeros(1, 5, 1), ids)
    assert partitions.context_positions(text, 0, 0) == {}
    assert partitions.context_positions(text, 0, 3) == {7: [0, 2], 3: [1]}
    assert partitions.context_positions(text, 0, 3, include_current=True) == {7: [0, 2], 3: [1, 3]}
    padded = partitions.Text(text.inputs, ids, torch.tensor([[False, False, True, True, True]]))
    assert partitions.context_positions(padded, 0, 4) == {7: [2], 3: [3]}
    source = partitions.Source(torch.zeros(1, 5, 1), ids, torch.tensor([[True, True, True, False, False]]))
    assert partitions.source_positions(source, 0) == {7: [0, 2], 3: [1]}


def test_reranking_by_hand() -> None:
    scores = row(5, 4, 3, 2, 1, 0)
    steps = {2: row(*[20.0] * 6), 3: row(-1, -2, 10, 9, 9, 9)}
    # the three best are rescored to -1, -2, 10; then 10 and the untouched 2 are best, which the first step never saw
    found, chosen = partitions.reranked(scores, steps)
    assert found.tolist() == [-1, -2, 20, 20, 1, 0]
    assert chosen == [(3, [0, 1, 2]), (2, [2, 3])]
    assert partitions.reranked(scores, steps, candidates="initial")[0].tolist() == [20, 20, 10, 2, 1, 0]
    assert partitions.reranked(scores, steps, mode="add")[0].tolist() == [24, 2, 33, 2, 1, 0]


def by_hand(**settings: object) -> partitions.Partitions:
    rerankers = {2: times(100), 3: times(10)}
    return partitions.Partitions(times(1), rerankers, times(10000), times(1000), **settings)


WEIGHT = row(6, 5, 4, 3, 2, 1)[:, None]
TEXT = partitions.Text(row(1, 4, 3, 1)[None, :, None], torch.tensor([[2, 5, 2, 0]]))
SOURCE = partitions.Source(row(1, 2, 3)[None, :, None], torch.tensor([[1, 2, 4]]))


def test_precedence_by_hand() -> None:
    # candidates 0 1 2, then 0 1; words of the source 1 2 4; words of the context 2 5; the query is 1
    def last(**settings: object) -> list[float]:
        return partitions.partitioned_scores(by_hand(**settings), TEXT, WEIGHT, SOURCE)[0, -1].tolist()

    assert last() == [600, 5000, 40000, 3, 2000, 10000]
    assert last(include_current=True) == [60000, 5000, 40000, 3, 2000, 10000]
    added = [600, 500 + 5000, 40 + 4000 + 40000, 3, 2 + 2000, 1 + 10000]
    assert last(mode="add") == added
    added = [6 + 60 + 600, 5 + 50 + 500 + 5000, 4 + 40 + 4000 + 40000, 3, 2002, 10001]
    assert last(mode="add", rerank_mode="add") == added
    # PD 7 and LD 1 see 1 and 3 at the places of word 2, 4 at that of 5; PE 1 and LE 2 see 1, 2, 3
    local = {"local": (times(7), times(1)), "source_local": (times(1), times(2))}
    assert last(**local) == [600, 5000 + 2, 40000 + 14, 3, 2000 + 6, 10000 + 28]


def test_local_embeddings_alone_by_hand() -> None:
    parts = partitions.Partitions(times(1), local=(times(7), times(1)), mode="add")
    assert partitions.partitioned_scores(parts, TEXT, WEIGHT)[0, -1].tolist() == [6, 5, 4 + 14, 3, 2, 1 + 28]


def test_mixture_by_hand() -> None:
    gate = row(0.25, 0.75).log().expand(1, 4, -1)
    small = partitions.Partitions(times(0.1), context=times(0.3))
    mixed = partitions.log_partitioned_mixture(gate, small, [times(0.2)], TEXT, WEIGHT)[0, -1].exp()
    first = row(0.6, 0.5, 1.2, 0.3, 0.2, 0.3).softmax(0)
    torch.testing.assert_close(mixed, 0.25 * first + 0.75 * (0.2 * WEIGHT[:, 0]).softmax(0), **EXACT)


PLACES = pointers.Places(torch.zeros(1, 4, 1), torch.tensor([[0, 2, 0, 1]]), torch.tensor([[[True] * 3 + [False]]]))
ATTENTION = row(1, 2, 3, 50).log()[None, None]
LOGITS = torch.zeros(1, 1, 3, dtype=torch.float64)


def test_pointers_by_hand() -> None:
    copied = pointers.log_copynet(LOGITS, ATTENTION, PLACES)[0, 0].exp()
    torch.testing.assert_close(copied, row(5, 1, 3) / 9, **EXACT)
    generated = pointers.log_pointer_generator(LOGITS, ATTENTION, row(math.log(3))[None], PLACES)[0, 0].exp()
    torch.testing.assert_close(generated, 0.75 / 3 + 0.25 * row(4, 0, 2) / 6, **EXACT)
    guarded = pointers.log_pointer_sentinel(LOGITS, ATTENTION, row(math.log(4))[None], PLACES)[0, 0].exp()
    torch.testing.assert_close(guarded, 0.4 / 3 + row(4, 0, 2) / 10, **EXACT)


def test_pointers_that_see_nothing_are_the_softmax() -> None:
    blind = pointers.Places(PLACES.embeddings, PLACES.ids, torch.zeros_like(PLACES.visible))
    for form in (pointers.log_pointer_generator, pointers.log_pointer_sentinel):
        torch.testing.assert_close(form(LOGITS, ATTENTION, row(-5)[None], blind), heads.log_softmax(LOGITS), **EXACT)
    torch.testing.assert_close(pointers.log_copynet(LOGITS, ATTENTION, blind), heads.log_softmax(LOGITS), **EXACT)


def test_a_pointer_sees_real_places_before_its_own() -> None:
    text = partitions.Text(TEXT.inputs, TEXT.ids, torch.tensor([[False, True, True, True]]))
    positions = pointers.past(text, times(2))
    assert positions.visible[0].int().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]]
    assert positions.embeddings[0, :, 0].tolist() == [2, 8, 6, 2]
    assert pointers.past(text, times(2), include_current=True).visible[0, 1].int().tolist() == [0, 1, 0, 0]
    read = partitions.Source(SOURCE.states, SOURCE.ids, torch.tensor([[True, True, False]]))
    assert pointers.source(text, read, times(2)).visible[0].int().tolist() == [[1, 1, 0]] * 4
    assert pointers.product_scores(positions.embeddings, positions, tanh=False)[0, 1].tolist() == [16, 64, 48, 16]
