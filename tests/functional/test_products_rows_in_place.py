"""Products with rows where they lie, against a copy of them; and when they are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nextword.functional import keys_in_place, products
from nextword.functional.keys_in_place import KeysInPlace, key_products
from nextword.functional.products import picked_product, products_in_place, reads_in_place

R, D, B, K = 300, 1024, 3, 700


def case(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix, a query of each text, and the rows that it meets: several times, and more than the matrix has."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(R, D, generator=generator, dtype=torch.float64).to(dtype)
    queries = torch.randn(B, 1, D, generator=generator, dtype=torch.float64).to(dtype)
    return table, queries, torch.randint(0, R, (B, K), generator=generator)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rows", [1, 7, R])
def test_products(rows: int) -> None:
    table, queries, ids = case()
    table, ids = table[:rows], ids % rows
    torch.testing.assert_close(products_in_place(table, queries, ids), queries @ table[ids].mT, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("counts", [(K, 0, 2), (0, 0, 0), (1, K, 257)])
def test_nothing_is_read_behind_the_end_of_a_text(counts: tuple[int, ...]) -> None:
    table, queries, ids = case()
    within = (torch.arange(K) < torch.tensor(counts)[:, None])[:, None]
    expected = (queries @ table[ids].mT).masked_fill(~within, 0)
    table = torch.cat([table, table.new_full((1, D), torch.nan)])
    found = products_in_place(table, queries, ids.masked_fill(~within[:, 0], R), counts)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("row", [-1, R])
def test_a_row_that_is_none(row: int) -> None:
    table, queries, ids = case()
    ids[1, 5] = row
    with pytest.raises(IndexError, match=r"ids:.*matrix, 0 to 299"):
        products_in_place(table, queries, ids)


@pytest.mark.parametrize("transform", ["jvp", "vmap", "grad"])
def test_torch_func(transform: str) -> None:
    """Its transforms get torch's own operations."""
    table, queries, ids = case()

    def made(states: Tensor) -> Tensor:
        return picked_product(table, states, ids).sin()

    def plain(states: Tensor) -> Tensor:
        return (states @ table[ids].mT).sin()

    def transformed(of: Callable[[Tensor], Tensor]) -> Tensor:
        if transform == "jvp":
            return torch.func.jvp(of, (queries,), (queries,))[1]
        if transform == "vmap":
            return torch.func.vmap(of)(torch.stack([queries, 2 * queries]))
        return torch.func.grad(lambda states: of(states).sum())(queries)

    torch.testing.assert_close(transformed(made), transformed(plain), rtol=1e-10, atol=1e-10)


def test_no_texts() -> None:
    table, queries, ids = case()
    assert products_in_place(table, queries[:0], ids[:0]).shape == (0, 1, K)


def test_single_precision_is_as_near_as_a_product_of_copies() -> None:
    table, queries, ids = case()
    exact, single = queries @ table[ids].mT, (table.float(), queries.float())
    copied = (single[1] @ single[0][ids].mT - exact).abs().max()
    assert (products_in_place(*single, ids) - exact).abs().max() <= 4 * copied


def test_who_reads_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows for one query on a CPU, without a gradient: keys of an engine, words of an output embedding."""
    table, queries, ids = case()
    assert reads_in_place(table, queries, K)
    assert not reads_in_place(table, queries, 100)
    assert not reads_in_place(table.T.contiguous().T, queries, K)
    assert not reads_in_place(table, queries.expand(B, 2, D), K)
    assert not reads_in_place(table.bfloat16(), queries.bfloat16(), K)
    assert not reads_in_place(table.float(), queries, K)
    assert not reads_in_place(table, queries.clone().requires_grad_(), K)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not reads_in_place(table, queries, K)
    asked = []

    def recorded(table: Tensor, queries: Tensor, ids: Tensor, counts: object = None) -> Tensor:
        asked.append(counts)
        return queries.new_zeros(len(ids), 1, ids.shape[1])

    monkeypatch.setattr(keys_in_place, "products_in_place", recorded)
    monkeypatch.setattr(products, "products_in_place", recorded)
    key_products(queries, KeysInPlace(table, ids, (K, K, 1)))
    picked_product(table, queries, ids)
    assert asked == [(K, K, 1), None]
