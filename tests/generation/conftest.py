"""What is watched while a model generates."""

from __future__ import annotations

import pytest

from nextword.model.head_cache.history import GrowingHistory


@pytest.fixture
def crops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many places each crop of a history took back."""
    taken: list[int] = []
    crop = GrowingHistory.crop

    def counted(self: GrowingHistory, change: int) -> None:
        taken.append(-change)
        crop(self, change)

    monkeypatch.setattr(GrowingHistory, "crop", counted)
    return taken
