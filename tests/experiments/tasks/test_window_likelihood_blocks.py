from __future__ import annotations

import pytest

from nextword.experiments.tasks.window_likelihood import block_rows


def test_blocks_are_contiguous_and_the_rest_is_left_out() -> None:
    rows = block_rows(list(range(11)), 4, "the text", "task.block")
    assert rows["input_ids"][:] == rows["labels"][:] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(block_rows(range(8), 4, "the text", "task.block")) == 2


def test_too_short_a_text_is_named_with_its_setting() -> None:
    with pytest.raises(ValueError, match=r"task\.block:.*\(3 given\)"):
        block_rows([1, 2, 3], 4, "the text", "task.block")
