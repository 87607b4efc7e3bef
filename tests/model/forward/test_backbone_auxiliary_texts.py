"""Whether a text is padding only is looked at on the CPU; a GPU would have to stop in every step."""

from __future__ import annotations

import pytest
import torch

from nextword.model.forward.backbone import _expect_texts


def test_texts_elsewhere_are_not_looked_at() -> None:
    """A tensor without values stands for one of a GPU."""
    _expect_texts(torch.ones(2, 3, dtype=torch.bool, device="meta"))


def test_empty_text_on_the_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has no token"):
        _expect_texts(torch.tensor([[True, False], [False, False]]))
