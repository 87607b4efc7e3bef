"""What is watched while a model generates."""

from __future__ import annotations

import pytest

from nextword.model.head_cache.head_cache import DynamicHeadCache


@pytest.fixture
def crops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many places each crop of a head cache took back."""
    taken: list[int] = []
    crop = DynamicHeadCache.crop

    def counted(self: DynamicHeadCache, change: int) -> None:
        taken.append(-change)
        crop(self, change)

    monkeypatch.setattr(DynamicHeadCache, "crop", counted)
    return taken
