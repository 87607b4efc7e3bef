from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from nextword.checking.audit.scorer import (
    CALL,
    OBSERVED,
    TEXTS,
    ScorerReader,
    WrongAnswerError,
    copy_of,
    ways_of,
)


class Both:
    """Says of every token its own number, so that shapes and places show."""

    def __init__(self) -> None:
        self.asked: list[list[list[int]]] = []

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """The length of the prefix, negative."""
        self.asked.append([list(prefix) for prefix in prefixes])
        return torch.stack([torch.full((4,), -float(len(prefix))) for prefix in prefixes])

    def text_log_probs(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """The same of observed tokens."""
        return [[-float(place) for place in range(len(text))] for text in texts]


def test_both_ways_tell_of_the_same_places() -> None:
    scorer = Both()
    assert ways_of(scorer) == (CALL, OBSERVED)
    (by_prefix,) = ScorerReader(scorer, CALL, 4).asked([[3, 1, 2]])
    (observed,) = ScorerReader(scorer, OBSERVED, 4).asked([[3, 1, 2]])
    assert by_prefix.shape == (3, 4)
    assert by_prefix[0].isnan().all()
    assert observed[1:, 0].tolist() == by_prefix[1:, 0].tolist() == [-1.0, -2.0]


def test_prefixes_of_one_length_are_asked_together_and_all_at_once_side_by_side() -> None:
    scorer = Both()
    reader = ScorerReader(scorer, CALL, 4)
    reader.asked([[3, 1, 2], [0, 0, 0]])
    assert scorer.asked == [[[3], [0]], [[3, 1], [0, 0]]]
    scorer.asked.clear()
    reader.side_by_side([[3, 1, 2], [0, 0]])
    assert scorer.asked == [[[3], [3, 1], [0]]]


def test_a_wrong_shape_is_said() -> None:
    with pytest.raises(WrongAnswerError, match=r"__call__:.*\(1, 4\)\] given"):
        ScorerReader(Both(), CALL, 5).asked([[1, 2]])


def test_a_copy_is_made_where_it_can_be() -> None:
    assert copy_of(Both()) is not None
    assert copy_of(threading.Lock()) is None
    assert copy_of(torch.zeros(2**25)) is None  # 128 MiB
    assert TEXTS not in ways_of(Both())
