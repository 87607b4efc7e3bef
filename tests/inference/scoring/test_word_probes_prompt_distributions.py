from __future__ import annotations

import torch

from nextword.functional.padding import padded
from nextword.inference.scoring.likelihood import ask, last_positions
from nextword.model.training_modes import inference_mode_of
from tests.helpers.fake_models import FakeModel


def test_padding_on_the_right() -> None:
    ids, mask = padded([[5, 6, 7], [8]], 1)
    assert ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert last_positions(mask).tolist() == [[False, False, True], [True, False, False]]
    assert ids[last_positions(mask)].tolist() == [7, 8]
    assert torch.is_tensor(ids)


def test_the_last_position_of_each_row_or_all_of_them() -> None:
    table = torch.log_softmax(torch.randn(9, 9, generator=torch.Generator().manual_seed(0)), -1)
    model = FakeModel(lambda ids, mode: table[ids] if mode == "joint" else table[ids].flip(-1))
    with inference_mode_of(model):
        last, positions = ask(model, [[5, 6, 7], [8]], pad=1)
        every, _ = ask(model, [[5, 6, 7], [8]], pad=1, everywhere=True)
        other, _ = ask(model, [[5, 6, 7], [8]], pad=1, mode="cache_only")
    assert positions.tolist() == [[False, False, True], [True, False, False]]
    torch.testing.assert_close(last.log_probs(), table[[7, 8]])
    torch.testing.assert_close(every.log_probs(), table[[5, 6, 7, 8]])
    torch.testing.assert_close(other.log_probs(), table[[7, 8]].flip(-1))
