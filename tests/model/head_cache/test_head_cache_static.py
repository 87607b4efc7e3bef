"""What a compiled step relies on: the same addresses in every step, and moves that cannot be are refused."""

from __future__ import annotations

import pytest
import torch

from nextword.model.head_cache.head_cache import StaticHeadCache
from tests.helpers.remembered_text import Text


def addresses(head_cache: StaticHeadCache) -> set[int]:
    """Of everything that is kept."""
    stored = [
        *head_cache._streams.values(),
        *head_cache._windows.values(),
        *head_cache._source.values(),
        head_cache.length,
    ]
    return {stream.data_ptr() for stream in stored}


@torch.no_grad()
def test_addresses_stay() -> None:
    head_cache = StaticHeadCache(40)
    text = Text(head_cache)
    text.read(5)
    head_cache.of_source(lambda: {"local": torch.ones(3, 2)})
    before = addresses(head_cache)
    text.read(1)
    text.reorder(torch.tensor([1, 1, 0]))
    head_cache.reset()
    head_cache.of_source(lambda: {"local": torch.zeros(3, 2)})
    text.ids, text.keys = text.ids[:, :0], text.keys[:, :0]
    text.read(4)
    assert addresses(head_cache) == before
    assert len(before) == 6  # ids, valid, keys, window, source, length


def test_what_cannot_be_done_in_place_is_refused() -> None:
    text = Text(StaticHeadCache(40))
    text.read(5)
    with pytest.raises(ValueError, match="cropped; use the dynamic"):
        text.head_cache.crop(-1)
    with pytest.raises(ValueError, match="sequences"):
        text.head_cache.repeat(2)
    with pytest.raises(ValueError, match="sequences"):
        text.head_cache.reorder(torch.tensor([0]))
    text.head_cache.repeat(1)
    text.read(1)
