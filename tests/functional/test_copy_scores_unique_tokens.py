from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from nextword.functional.copy_scores import UniqueTokens

tokens = st.lists(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=7, max_size=7), min_size=1, max_size=3)


@given(tokens)
def test_words_of_a_text(rows: list[list[tuple[int, bool]]]) -> None:
    ids = torch.tensor([[token for token, _ in row] for row in rows])
    valid = torch.tensor([[counts for _, counts in row] for row in rows])
    words = UniqueTokens.of(ids, valid)
    row, position = torch.arange(len(rows)).repeat_interleave(8), torch.arange(8).repeat(len(rows))
    seen, occurring = words.seen(row, position), words.occurring(row)
    scores = torch.randn(len(row), 7, dtype=torch.float64)
    visible = valid[row] & (torch.arange(7) < position[:, None])
    means = words.mean(scores, visible, row)
    chosen = torch.rand(len(row), 7) < 0.5
    standing = words.at(chosen, row)
    assert words.ids.shape[1] == max(1, *(len({t for t, v in r if v}) for r in rows), 0)
    for n, (b, t) in enumerate(zip(row.tolist(), position.tolist(), strict=True)):
        positions = [s for s in range(7) if valid[b, s]]
        before = {int(ids[b, s]) for s in positions if s < t}
        assert words.ids[b][seen[n]].tolist() == sorted(before)
        assert words.ids[b][standing[n]].tolist() == sorted({int(ids[b, s]) for s in positions if chosen[n, s]})
        assert words.ids[b][occurring[n]].tolist() == sorted({int(ids[b, s]) for s in positions})
        for u in seen[n].nonzero()[:, 0].tolist():
            held = [float(scores[n, s]) for s in positions if s < t and ids[b, s] == words.ids[b, u]]
            assert abs(float(means[n, u]) - sum(held) / len(held)) < 1e-12
        assert not means[n][~seen[n]].any()


def test_gradient_of_a_mean_is_shared_by_the_places() -> None:
    words = UniqueTokens.of(torch.tensor([[4, 2, 4, 4]]), torch.tensor([[True, True, True, False]]))
    scores = torch.zeros(1, 4, requires_grad=True)
    row, visible = torch.zeros(1, dtype=torch.long), torch.tensor([[True, True, True, False]])
    words.mean(scores, visible, row).sum().backward()
    assert scores.grad.tolist() == [[0.5, 1.0, 0.5, 0.0]]
