"""The contract, held against every home: what is read is what plain concatenation would hold."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nextword.model.head_cache.head_cache import DynamicHeadCache, HeadCache, StaticHeadCache
from tests.helpers.remembered_text import Text

HOMES: dict[str, Callable[[], HeadCache]] = {"growing": DynamicHeadCache, "static": lambda: StaticHeadCache(400)}
EVERY_HOME = pytest.mark.parametrize("make", HOMES.values(), ids=HOMES)


def source(value: float) -> dict[str, Tensor]:
    return {"local": value * torch.ones(3, 2, 4) * torch.arange(3)[:, None, None]}


@EVERY_HOME
@torch.no_grad()
def test_pieces_and_beams(make: Callable[[], HeadCache]) -> None:
    text = Text(make())
    for step in range(80):
        text.read(1 + step % 4)
        text.reorder(torch.randint(3, (3,), generator=text.generator))
    assert text.ids.shape[1] == 200


@EVERY_HOME
@torch.no_grad()
def test_after_a_reset_another_text_begins(make: Callable[[], HeadCache]) -> None:
    text = Text(make())
    text.read(7)
    text.head_cache.of_source(lambda: source(1.0))
    text.head_cache.reset()
    assert text.head_cache.length == 0
    assert not text.head_cache.knows_source
    text.ids, text.keys = text.ids[:, :0], text.keys[:, :0]
    text.read(3)
    assert torch.equal(text.head_cache.of_source(lambda: source(2.0))["local"], source(2.0)["local"])


@EVERY_HOME
def test_the_source_is_made_once_and_moves_along(make: Callable[[], HeadCache]) -> None:
    head_cache = make()
    assert not head_cache.knows_source
    head_cache.of_source(lambda: source(1.0))
    assert head_cache.knows_source
    head_cache.reorder(torch.tensor([2, 2, 0]))
    stored = head_cache.of_source(lambda: source(5.0))["local"]
    assert stored[:, 0, 0].tolist() == [2, 2, 0]


@EVERY_HOME
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda head_cache: pickle.loads(pickle.dumps(head_cache))])
@torch.no_grad()
def test_copies_part(make: Callable[[], HeadCache], copied: Callable[[HeadCache], HeadCache]) -> None:
    text = Text(make())
    text.read(5)
    twin = Text(copied(text.head_cache))
    twin.ids, twin.keys = text.ids, text.keys
    text.read(2)
    twin.read(3)
    text.read(1)


@EVERY_HOME
def test_the_callers_tokens_may_change_afterwards(make: Callable[[], HeadCache]) -> None:
    ids = torch.ones(1, 2, dtype=torch.long)
    head_cache = make()
    head_cache.remember(ids, torch.ones(1, 2, dtype=torch.bool), {})
    memory = head_cache.recall()
    ids.fill_(7)
    assert memory.ids[:, :2].tolist() == [[1, 1]]


@EVERY_HOME
def test_a_crop_of_nothing_is_nothing(make: Callable[[], HeadCache]) -> None:
    text = Text(make())
    text.read(4)
    text.head_cache.crop(0)
    text.read(1)


@EVERY_HOME
def test_reserved_places_fit(make: Callable[[], HeadCache]) -> None:
    text = Text(make())
    text.read(10)
    text.head_cache.reserve(700)
    text.read(690)
