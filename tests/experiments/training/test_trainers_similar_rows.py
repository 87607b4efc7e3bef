"""Rows of one batch are neighbours by BM25, and each row is seen once an epoch."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from nextword.experiments.training.trainers import similar_rows
from nextword.runtime import optional_libraries

pytest.importorskip("bm25s")

TOPICS, EACH, LENGTH = 5, 8, 12
K1, B = 1.5, 0.75
"""Of BM25, as the library has them."""


def rows() -> list[list[int]]:
    """Rows of five topics, shuffled: half of a row's tokens are its topic's own, half are of all."""
    draw = random.Random(0)
    found = [
        [*draw.choices(range(100 * topic, 100 * topic + 10), k=LENGTH // 2), *draw.choices(range(1000, 1010), k=6)]
        for topic in range(TOPICS)
        for _ in range(EACH)
    ]
    draw.shuffle(found)
    return found


def topic_of(row: Sequence[int]) -> int:
    return row[0] // 100


def textbook(query: Sequence[int], row: Sequence[int], every: Sequence[Sequence[int]]) -> float:
    """BM25 (Robertson and Zaragoza 2009, eq. 3.15, with Lucene's idf), written down without the library."""
    mean, counts, total = sum(map(len, every)) / len(every), Counter(row), 0.0
    for token in query:
        held = sum(token in one for one in every)
        idf = math.log(1 + (len(every) - held + 0.5) / (held + 0.5))
        total += idf * counts[token] / (counts[token] + K1 * (1 - B + B * len(row) / mean))
    return total


@pytest.mark.parametrize("batch_size", [2, 4, 7])
def test_each_row_is_seen_once(batch_size: int) -> None:
    order = similar_rows(rows(), batch_size, seed=3)
    assert sorted(order) == list(range(TOPICS * EACH))


def test_rows_of_a_batch_are_neighbours() -> None:
    """Each batch is of one topic, and a row is far more like the one before it than rows are that are drawn."""
    every, size = rows(), EACH
    order = similar_rows(every, size, seed=1)
    of_one_topic = [len({topic_of(every[row]) for row in order[at : at + size]}) for at in range(0, len(order), size)]
    assert of_one_topic == [1] * TOPICS
    pairs = [(order[at], order[at + 1]) for at in range(len(order) - 1) if (at + 1) % size]
    near = sum(textbook(every[one], every[other], every) for one, other in pairs) / len(pairs)
    draw = random.Random(0)
    drawn = [draw.sample(range(len(every)), 2) for _ in range(1000)]
    usual = sum(textbook(every[one], every[other], every) for one, other in drawn) / len(drawn)
    assert near > 2 * usual


def test_the_seed_orders_the_batches_and_draws() -> None:
    orders = [similar_rows(rows(), 4, seed) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_one_row_and_equal_rows() -> None:
    assert similar_rows([[1, 2]], 4, seed=0) == [0]
    assert sorted(similar_rows([[1, 2]] * 30, 4, seed=0)) == list(range(30))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_libraries, "missing", list)
    with pytest.raises(ValueError, match=r"training.alike: needs the package bm25s.*nextword\[bm25\]"):
        similar_rows(rows(), 4, seed=0)
