from __future__ import annotations

import pytest
import torch

from nextword.functional.padding import padded, stacked

ROWS = [[5, 6, 7], [], [8]]


@pytest.mark.parametrize(
    ("side", "ids", "mask"),
    [
        ("right", [[5, 6, 7], [9, 9, 9], [8, 9, 9]], [[1, 1, 1], [0, 0, 0], [1, 0, 0]]),
        ("left", [[5, 6, 7], [9, 9, 9], [9, 9, 8]], [[1, 1, 1], [0, 0, 0], [0, 0, 1]]),
    ],
)
def test_shorter_rows_are_filled_on_one_side_and_masked(side, ids, mask):
    found = padded(ROWS, 9, side)
    assert [tensor.tolist() for tensor in found] == [ids, mask]
    assert {tensor.dtype for tensor in found} == {torch.long}


def test_tensors_keep_their_type_and_their_mask_has_it():
    rows = [torch.tensor(row, dtype=torch.int32) for row in ROWS]
    assert {tensor.dtype for tensor in padded(rows)} == {torch.int32}


def test_rows_may_be_states():
    found = stacked([torch.ones(2, 3), torch.ones(1, 3)], 0)
    assert found.sum(-1).tolist() == [[3, 3], [3, 0]]
