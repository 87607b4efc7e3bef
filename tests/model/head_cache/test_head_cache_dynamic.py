"""What only a growing head cache can do: be cropped, repeated, and begin behind places that it never saw."""

from __future__ import annotations

import pytest
import torch

from nextword.model.head_cache.head_cache import DynamicHeadCache
from tests.helpers.remembered_text import BEFORE, Text


@torch.no_grad()
def test_cropped_places_are_forgotten() -> None:
    text = Text(DynamicHeadCache())
    text.read(80)
    for positions in (1, 5, 30):
        text.head_cache.crop(-positions)
        text.ids, text.keys = text.ids[:, :-positions], text.keys[:, :-positions]
        text.read(2)


@torch.no_grad()
def test_a_crop_of_everything_begins_anew_with_the_same_source() -> None:
    text = Text(DynamicHeadCache())
    for _ in range(80):  # more than the window keeps
        text.read(1)
    text.head_cache.of_source(lambda: {"local": torch.ones(3, 1)})
    text.head_cache.crop(-80)
    text.ids, text.keys = text.ids[:, :0], text.keys[:, :0]
    assert text.head_cache.length == 0
    text.read(2)
    assert text.head_cache.of_source(lambda: {"local": torch.zeros(3, 1)})["local"].all()


@torch.no_grad()
def test_more_than_a_window_keeps_cannot_be_taken_back() -> None:
    head_cache, new = DynamicHeadCache(), torch.ones(1, 100, 4)
    head_cache.preceded("window", new, BEFORE)
    head_cache.remember(torch.ones(1, 100, dtype=torch.long), torch.ones(1, 100, dtype=torch.bool), {})
    for _ in range(70):  # one by one, since a long pass keeps as much as it brought
        head_cache.preceded("window", new[:, :1], BEFORE)
        head_cache.remember(torch.ones(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool), {})
    head_cache.crop(-64)
    assert head_cache.preceded("window", new[:, :1], BEFORE).shape == (1, 3, 4)
    head_cache.crop(-64)
    with pytest.raises(ValueError, match="cropped by more than 64"):
        head_cache.preceded("window", new[:, :1], BEFORE)


@torch.no_grad()
def test_repeated_sequences_stand_side_by_side() -> None:
    text = Text(DynamicHeadCache())
    text.read(4)
    text.head_cache.of_source(lambda: {"local": torch.arange(3)})
    text.head_cache.repeat(2)
    text.ids, text.keys = text.ids.repeat_interleave(2, 0), text.keys.repeat_interleave(2, 0)
    text.read(3)
    assert text.head_cache.of_source(dict)["local"].tolist() == [0, 0, 1, 1, 2, 2]


@torch.no_grad()
def test_of_places_that_were_never_seen_nothing_is_known() -> None:
    head_cache = DynamicHeadCache(unseen=6)
    head_cache.crop(-2)
    assert head_cache.length == 4
    first = head_cache.remember(torch.tensor([[7, 8]]), torch.ones(1, 2, dtype=torch.bool), {"keys": torch.ones(1, 2)})
    memory = head_cache.recall()
    assert first == 4
    assert memory.ids.tolist() == [[-1] * 4 + [7, 8]]
    assert memory.valid.tolist() == [[False] * 4 + [True] * 2]
    assert memory.streams["keys"].tolist() == [[0.0] * 4 + [1.0] * 2]


def test_sequences_are_cut_by_their_own_numbers_and_end_together() -> None:
    head_cache = DynamicHeadCache()
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    head_cache.preceded("window", ids[..., None].float(), 1)
    head_cache.remember(ids, torch.ones_like(ids, dtype=torch.bool), {"kept": ids[..., None].float()})
    head_cache.align(torch.tensor([0, 2]), 4)
    memory = head_cache.recall()
    assert memory.ids[0].tolist() == [1, 2, 3, 4]
    assert memory.ids[1, 2:].tolist() == [5, 6]
    assert memory.valid.tolist() == [[True] * 4, [False, False, True, True]]
    assert memory.streams["kept"][1, 2:, 0].tolist() == [5, 6]
    window = head_cache.preceded("window", torch.tensor([[[9.0]], [[10.0]]]), 1)
    assert window[..., 0].tolist() == [[4, 9], [6, 10]]
