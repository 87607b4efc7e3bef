"""Keys that stay where they lie, against a copy of them."""

from __future__ import annotations

import pytest
import torch

from nextword.functional import products as picked
from nextword.functional.keys_in_place import KeysInPlace, StreamsInPlace, key_products, read_keys
from nextword.heads import pointer_generator as additive
from nextword.heads.pointer_generator import additive_scores

SLOTS, B, Q, S, D = 11, 3, 2, 6, 4


def case(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, KeysInPlace]:
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(B, Q, D, generator=generator, dtype=torch.float64)
    table = torch.randn(SLOTS, D, generator=generator, dtype=torch.float64).to(dtype)
    return queries, KeysInPlace(table, torch.randint(0, SLOTS, (B, S), generator=generator))


@pytest.mark.parametrize("picked_bytes", [1, 3 * D * 8, 2**20], ids=["one key", "half a text", "all texts at a time"])
def test_products(picked_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(picked.PICKED_BYTES, "cpu", picked_bytes)
    queries, keys = case()
    copied = keys.table[keys.index]
    assert keys.shape == copied.shape
    torch.testing.assert_close(key_products(queries, keys), queries @ copied.mT, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(key_products(queries, keys[:, 2:]), queries @ copied[:, 2:].mT, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(key_products(queries[:1], keys[:1]), queries[:1] @ copied[:1].mT)
    queries.requires_grad_()
    assert torch.autograd.gradcheck(lambda given: key_products(given, keys), [queries])


@pytest.mark.parametrize("asked", [1, Q])
@pytest.mark.parametrize("chunk_bytes", [1, 2**20])
def test_additive_scores(chunk_bytes: int, asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(additive._CHUNK_BYTES, "cpu", chunk_bytes)
    queries, keys = case()
    queries, vector = queries[:, :asked], torch.arange(1.0, D + 1, dtype=torch.float64)
    expected = torch.tanh(queries[:, :, None] + read_keys(keys)[:, None]) @ vector
    torch.testing.assert_close(additive_scores(queries, keys, vector), expected)
    queries = queries.clone().requires_grad_()
    torch.testing.assert_close(additive_scores(queries, keys, vector), expected)


def test_nothing_is_read_behind_the_end_of_a_text() -> None:
    queries, keys = case()
    counts, vector = (S, 0, 2), torch.ones(D, dtype=torch.float64)
    short = KeysInPlace(keys.table, keys.index, counts)
    within = (torch.arange(S) < torch.tensor(counts)[:, None])[:, None].expand(B, Q, S)
    behind = KeysInPlace(keys.table, keys.index.masked_fill(~within[:, 0], SLOTS + 1), counts)  # no such row
    for found, expected in [
        (key_products(queries, behind), key_products(queries, keys)),
        (additive_scores(queries, behind, vector), additive_scores(queries, keys, vector)),
        (additive_scores(queries, behind, vector, torch.tensor([1, 5])), additive_scores(queries, keys, vector)),
    ]:
        kept = within & (found != 0)
        assert kept[0, 1, :5].all()
        assert kept[2, 1, :2].all()
        torch.testing.assert_close(found[kept], expected[kept])
        assert not found[~within].any()
    assert short[1:, 1:-1].counts == (0, 1)
    assert short[:2].counts == (S, 0)


def test_half_precision_is_read_in_single() -> None:
    queries, keys = case(torch.bfloat16)
    queries = queries.float()
    assert read_keys(keys).dtype == torch.float32
    torch.testing.assert_close(key_products(queries, keys), queries @ read_keys(keys).mT)


def test_streams() -> None:
    _, keys = case()
    flags = torch.arange(SLOTS) % 2 == 0
    streams = StreamsInPlace({"local": keys.table, "flags": flags}, keys.index)
    assert {name: stream.shape for name, stream in streams.items()} == {"local": (B, S, D), "flags": (B, S)}
    assert torch.equal(streams["flags"], flags[keys.index])
    assert streams.in_place("local").table is keys.table
