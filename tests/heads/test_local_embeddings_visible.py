"""What a position sees of its text: all before it, or the nearest tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextword.heads import past_positions, past_words
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context

V = 5
texts = st.lists(st.lists(st.tuples(st.integers(0, V), st.booleans()), min_size=6, max_size=6), min_size=1, max_size=3)


def context_of(text: list[list[tuple[int, bool]]]):
    """A context whose texts have padding anywhere, and the token ``V``, which the output layer does not know."""
    ids = torch.tensor([[token for token, _ in row] for row in text])
    mask = torch.tensor([[counts for _, counts in row] for row in text])
    states = torch.randn(*ids.shape, 4, dtype=torch.float64)
    vocabulary = LinearVocabulary(torch.randn(V, 4, dtype=torch.float64))
    return decoder_context(build_head("softmax+c", 4, V), states, ids, vocabulary, mask=mask)


@given(texts, st.booleans(), st.sampled_from([None, 1, 2, 9]))
def test_a_position_sees_the_nearest_tokens(text: list[list[tuple[int, bool]]], own: bool, last: int | None) -> None:
    context = context_of(text)
    positions = past_positions(context, own, last)
    words, seen = past_words(context, own, last)
    for n, (row, position) in enumerate(zip(context.row.tolist(), context.position.tolist(), strict=True)):
        tokens = [at for at in range(position + own) if text[row][at][1]]
        near = [at for at in (tokens if last is None else tokens[-last:]) if text[row][at][0] < V]
        assert positions[n].nonzero()[:, 0].tolist() == near
        assert words.ids[row][seen[n]].tolist() == sorted({text[row][at][0] for at in near})


def test_seeing_no_token_is_refused() -> None:
    with pytest.raises(ValueError, match=r"last:.*\(0 given"):
        past_positions(context_of([[(1, True)] * 6]), True, last=0)
