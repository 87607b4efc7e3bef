"""What is watched while a model generates."""

from __future__ import annotations

import pytest

from nextword.memory.history import History


@pytest.fixture
def crops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many places each crop of a history took back."""
    taken: list[int] = []
    crop = History.crop

    def counted(self: History, change: int) -> None:
        taken.append(-change)
        crop(self, change)

    monkeypatch.setattr(History, "crop", counted)
    return taken
