"""Which sequence each position belongs to, and when that is looked at."""

from __future__ import annotations

import torch

from nextword.heads.context import Layout


def test_making_a_layout_looks_at_no_value() -> None:
    """Tensors without values stand for those of a GPU, which every look would stop."""
    layout = Layout(torch.zeros(5, dtype=torch.long, device="meta"), 2)
    assert layout.row.shape == (5,)


def test_width_and_slots_follow_from_the_rows() -> None:
    layout = Layout(torch.tensor([0, 0, 2, 2, 2]), 3)
    assert layout.width == 3
    assert layout.slot.tolist() == [0, 1, 0, 1, 2]
    assert layout.pack(torch.ones(5, 1))[..., 0].tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]


def test_the_sequences_that_have_positions() -> None:
    layout = Layout(torch.tensor([1, 1, 3]), 5)
    among, rows = layout.occupied()
    assert (rows, among.batch_size, among.width) == (slice(1, 4), 3, 2)
    assert among.row.tolist() == [0, 0, 2]
    assert among.slot.tolist() == [0, 1, 0]
    assert Layout(torch.tensor([], dtype=torch.long), 2).occupied()[1] == slice(0, 2)
