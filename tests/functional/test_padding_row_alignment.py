from __future__ import annotations

import torch

from nextword.functional.padding import aligned_at_end, known_at_end


def test_rows_end_together_without_what_was_dropped() -> None:
    positions = torch.arange(2 * 5 * 3).view(2, 5, 3)
    aligned = aligned_at_end(positions, torch.tensor([0, 2]), 4)
    assert torch.equal(aligned[0], positions[0, 1:5])
    assert torch.equal(aligned[1, 1:], positions[1, :3])
    valid = known_at_end(torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]).bool(), torch.tensor([0, 2]), 5)
    assert valid.tolist() == [[False, True, True, True, True], [False, False, True, True, True]]
