"""States on the disk: what is read is what was written, found by the rows' tokens; what is cut off is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nextword.model.stored_states.state_files import (
    Precision,
    RowStates,
    StoredStates,
    TokenRow,
    finished_shard,
    write_shard,
)
from tests.helpers.stored_rows import stored


def _found(length: int, seed: int) -> RowStates:
    chance = torch.Generator().manual_seed(seed)
    states = torch.randn(length, 4, generator=chance, dtype=torch.float64)
    return RowStates(states, states[:, None, :].expand(-1, 2, -1).clone(), states[:, :0])


def test_every_row_is_found_by_its_tokens(tmp_path: Path) -> None:
    _, from_store, rows = stored("bart", tmp_path, shard_tokens=10)
    store = StoredStates(tmp_path)
    assert len(store.manifest.shards) > 2
    assert list(store.rows())[: len(rows)] == rows
    for row in store.rows():
        found = store.of(row)
        assert found is not None
        assert (len(found.states), len(found.source)) == (len(row.ids), len(row.source))
    first = rows[0]
    assert store.of(TokenRow(first.ids[:-1], first.source)) is None
    assert store.of(TokenRow(first.ids, first.source[1:])) is None
    assert store.of(TokenRow((*first.source, *first.ids))) is None
    assert from_store.store.manifest == store.manifest


@pytest.mark.parametrize(
    ("precision", "most"), [("float64", 0.0), ("float32", 1e-7), ("float16", 1e-3), ("bfloat16", 8e-3)]
)
def test_what_rounding_changes_is_written_down(tmp_path: Path, precision: Precision, most: float) -> None:
    rows = [TokenRow((1, 2, 3)), TokenRow((4,))]
    states = [_found(3, 0), _found(1, 1)]
    facts = write_shard(tmp_path, 0, rows, states, precision)
    assert facts == finished_shard(tmp_path, 0)
    exact = torch.cat([one.states for one in states])
    error = (exact.to(getattr(torch, precision)).double() - exact).norm() / exact.norm()
    assert facts.rounding == pytest.approx(float(error), rel=1e-12, abs=0)
    assert facts.rounding <= most


def test_states_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    large = RowStates(torch.full((1, 4), 1e6), torch.zeros(1, 0, 4), torch.zeros(0, 4))
    write_shard(tmp_path, 0, [TokenRow((1,))], [large], "bfloat16")
    with pytest.raises(ValueError, match="float16"):
        write_shard(tmp_path, 1, [TokenRow((1,))], [large], "float16")
    assert finished_shard(tmp_path, 1) is None


def test_damaged_stores_are_refused(tmp_path: Path) -> None:
    stored("llama", tmp_path)
    file = tmp_path / "shard-00000.states.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match="cut off"):
        StoredStates(tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match="is missing"):
        StoredStates(tmp_path)
    file.write_bytes(whole)
    (tmp_path / "states.json").unlink()
    with pytest.raises(ValueError, match="not finished"):
        StoredStates(tmp_path)
    with pytest.raises(ValueError, match="nextword states build"):
        StoredStates(tmp_path / "nowhere")
