from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import nextword as nw

V = 6


def test_what_is_not_needed_is_left_out() -> None:
    """Wrong from the third token on: three tokens are the smallest text that shows it."""

    def late(prefixes: Sequence[Sequence[int]]) -> Tensor:
        right = torch.full((len(prefixes), V), 1 / V)
        return torch.stack(
            [row * (1.5 if len(prefix) >= 3 else 1) for row, prefix in zip(right, prefixes, strict=True)]
        ).log()

    (found,) = nw.check(late, vocabulary=V, lengths=[17]).findings
    assert [len(text) for text in found.texts] == [3]
    assert found.shown.startswith("position 3 assigns 1.5 in total")
    # and it does show it
    assert float(late(found.texts).exp().sum()) > 1.4


def test_neighbours_that_are_needed_stay() -> None:
    def mean(prefixes: Sequence[Sequence[int]]) -> Tensor:
        last = torch.nn.functional.one_hot(torch.tensor([prefix[-1] for prefix in prefixes]), V).float()
        return (last + last.mean(0)).log_softmax(-1)

    (found,) = nw.check(mean, vocabulary=V, lengths=[9]).findings
    assert found.fault == "batch-neighbour"
    assert len(found.texts) == 2
    assert max(len(text) for text in found.texts) <= 2
