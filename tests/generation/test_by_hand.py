"""The operations on a cache, called one by one, as decoding loops outside transformers call them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from nextword.model.head_cache.kv_cache import head_cache_of
from tests.helpers.generating_models import DECODERS, ENCODER_DECODERS, headed, pairs, prompt
from tests.helpers.piecewise import Reader
from tests.helpers.recomputation import TOLERANCE

ALL = {**DECODERS, **ENCODER_DECODERS}


def assert_same(ours: Tensor, full: Tensor) -> None:
    assert torch.allclose(ours.clamp_min(-30), full.clamp_min(-30), rtol=0, atol=TOLERANCE)


@pytest.mark.few(8)
@pytest.mark.parametrize("pieces", [[9], [1] * 9, [4, 1, 4], [2, 7]], ids=str)
@pytest.mark.parametrize(("family", "head"), pairs(ALL, remembering=True))
def test_any_pieces(family: str, head: str, pieces: list[int]) -> None:
    reader, ids = Reader(headed(family, head)), prompt()
    ours = torch.cat([reader.read(piece) for piece in ids.split(pieces, 1)], 1)
    assert_same(ours, reader.full(ids, 9))


@pytest.mark.parametrize(("family", "head"), pairs(ALL, remembering=True))
def test_crop(family: str, head: str) -> None:
    reader, ids = Reader(headed(family, head)), prompt()
    other = torch.cat([ids[:, :-3], prompt(2, 4, seed=8)], 1)
    reader.read(ids[:, :2])
    reader.cache.activate_past_recording()  # sliding windows drop what they may need again otherwise
    reader.read(ids[:, 2:])
    reader.cache.crop(-3)
    reader.cache.crop(0)
    assert_same(reader.read(other[:, -4:]), reader.full(other, 4))


@pytest.mark.parametrize(("family", "head"), pairs(ALL, remembering=True))
def test_reset(family: str, head: str) -> None:
    reader, ids = Reader(headed(family, head)), prompt()
    reader.read(prompt(2, 5, seed=8))
    reader.cache.reset()
    assert_same(reader.read(ids), reader.full(ids, 9))


@pytest.mark.parametrize(("family", "head"), pairs(ALL, remembering=True))
def test_repeat_and_select(family: str, head: str) -> None:
    """As contrastive search does: several candidates for each row, of which one is kept."""
    reader, ids = Reader(headed(family, head)), prompt()
    reader.read(ids)
    reader.cache.batch_repeat_interleave(3)
    if reader.source is not None:
        reader.source = reader.source.repeat_interleave(3, 0)
    wide = torch.cat([ids.repeat_interleave(3, 0), prompt(6, 1, seed=8)], 1)
    assert_same(reader.read(wide[:, -1:]), reader.full(wide, 1))
    kept = torch.tensor([2, 3])
    reader.cache.batch_select_indices(kept)
    if reader.source is not None:
        reader.source = reader.source[kept]
    narrow = torch.cat([wide[kept], prompt(2, 2, seed=9)], 1)
    assert_same(reader.read(narrow[:, -2:]), reader.full(narrow, 2))


@pytest.mark.parametrize(("family", "head"), pairs(ALL, remembering=True))
def test_reorder(family: str, head: str) -> None:
    reader, ids = Reader(headed(family, head)), prompt()
    reader.read(ids)
    swap = torch.tensor([1, 1])
    reader.cache.reorder_cache(swap)
    if reader.source is not None:
        reader.source = reader.source[swap]
    text = torch.cat([ids[swap], prompt(2, 1, seed=8)], 1)
    assert_same(reader.read(text[:, -1:]), reader.full(text, 1))


def test_cache_keeps_its_class_and_length() -> None:
    """Other code asks a cache what it is and counts its layers."""
    reader = Reader(headed("gpt2", "cache"))
    reader.read(prompt())
    assert type(reader.cache) is DynamicCache
    assert len(reader.cache) == 3
    assert reader.cache.is_croppable
    assert not reader.cache.is_compileable


def test_history_counts_places() -> None:
    reader = Reader(headed("mistral", "cache"))
    reader.read(prompt())
    head_cache = head_cache_of(reader.cache)
    assert head_cache is not None
    assert head_cache.length == 9  # all of them, though the keys are those of the window


@pytest.mark.parametrize("rows", [1, 3])
def test_cropped_behind_the_models_back(rows: int) -> None:
    reader = Reader(headed("gpt2", "softmax+mi"))
    reader.read(prompt(rows))
    for layer in reader.cache.layers:
        layer.crop(-2)
    with pytest.raises(ValueError, match="changed by other code"):
        reader.read(prompt(rows, 1))
