"""How many rows of scores go at once."""

from __future__ import annotations

import pytest
import torch

from nextword.functional.chunked_loss import row_chunks, score_memory, sum_chunks

CPU = torch.device("cpu")
MEBI = 2**20


def sizes(chunks: list[slice]) -> list[int]:
    return [chunk.stop - chunk.start for chunk in chunks]


def test_chunks_are_of_equal_size() -> None:
    with score_memory(1):
        assert sizes(row_chunks(11, MEBI // 4, CPU)) == [4, 4, 3]


def test_at_least_one_row_goes_at_once() -> None:
    with score_memory(1):
        assert sizes(row_chunks(3, 5 * MEBI, CPU)) == [1, 1, 1]
        assert row_chunks(0, MEBI, CPU) == []


@pytest.mark.parametrize(
    ("rows", "weight", "expected"),
    [
        (100, 100, [100]),  # all scores together are no larger than the weight
        (100, 60, [50, 50]),  # 64 MiB, more than two thirds of the weight
        (290, 150, [97, 97, 96]),  # two thirds of the weight, more than 64 MiB
    ],
)
def test_a_sum_takes_more_rows_at_once_the_larger_its_weight_is(rows: int, weight: int, expected: list[int]) -> None:
    assert sizes(sum_chunks(rows, MEBI, weight * MEBI, CPU)) == expected
    with score_memory(100):  # what the user asks for holds for sums as well
        assert sum_chunks(rows, MEBI, weight * MEBI, CPU) == row_chunks(rows, MEBI, CPU)


def test_what_the_allocator_keeps_unused_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU whose driver has nothing left: torch keeps 100 MiB, of which 60 are in use."""
    for name, answer in {"mem_get_info": (0, 0), "memory_reserved": 100 * MEBI, "memory_allocated": 60 * MEBI}.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, answer=answer: answer)
    assert sizes(row_chunks(8, MEBI, torch.device("cuda", 0))) == [4, 4]
