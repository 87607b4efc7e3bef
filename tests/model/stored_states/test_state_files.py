"""States on the disk: what is read is what was written, found by the rows' tokens; what is cut off is refused."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.states import build_states
from nextword.model.stored_states.state_files import (
    Precision,
    RowStates,
    StatesShard,
    StoredStates,
    TokenRow,
    manifest_of,
    write_shard,
)
from nextword.retrieval.datastore.stored_keys import StoredKeys
from nextword.runtime.shard_files import finished_shard
from tests.helpers import text_tokenizers
from tests.helpers.stored_rows import backbone, stored


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
    assert facts == finished_shard(tmp_path, 0, StatesShard)
    exact = torch.cat([one.states for one in states])
    error = (exact.to(getattr(torch, precision)).double() - exact).norm() / exact.norm()
    assert facts.rounding == pytest.approx(float(error), rel=1e-12, abs=0)
    assert facts.rounding <= most


def test_states_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    large = RowStates(torch.full((1, 4), 1e6), torch.zeros(1, 0, 4), torch.zeros(0, 4))
    write_shard(tmp_path, 0, [TokenRow((1,))], [large], "bfloat16")
    with pytest.raises(ValueError, match="float16"):
        write_shard(tmp_path, 1, [TokenRow((1,))], [large], "float16")
    assert finished_shard(tmp_path, 1, StatesShard) is None


def test_the_last_hidden_states_are_stored_once(tmp_path: Path) -> None:
    """Where the output layer reads them; T5's reads them scaled."""
    for family, begin in (("llama", 1), ("gemma2", 1), ("t5", 0)):
        folder = tmp_path / family
        _, from_store, rows = stored(family, folder, layers=2)
        assert from_store.store.manifest.shards[0].layers_begin == begin
        kept = np.load(folder / "shard-00000.layers.npy")
        assert kept.shape[1] == 2 - begin
        found = from_store.store.of(rows[0])
        assert found is not None
        assert found.layers.shape[1] == 2
        if begin:
            assert torch.equal(found.layers[:, 0], found.states)
    stored("llama", tmp_path / "one", layers=1)
    assert not list((tmp_path / "one").glob("*.layers.npy"))


def test_a_store_with_all_layers_in_a_file_is_read(tmp_path: Path) -> None:
    """As earlier builds made them."""
    _, from_store, rows = stored("llama", tmp_path, layers=2)
    expected = from_store.store.of(rows[1])
    assert expected is not None
    lower = np.load(tmp_path / "shard-00000.layers.npy")
    states = np.load(tmp_path / "shard-00000.states.npy")
    np.save(tmp_path / "shard-00000.layers.npy", np.concatenate([states[:, None], lower], 1))
    for name in ("states.json", "shard-00000.json"):
        (tmp_path / name).write_text(re.sub(r',\s*"layers_begin": 1', "", (tmp_path / name).read_text()))
    found = StoredStates(tmp_path).of(rows[1])
    assert found is not None
    assert torch.equal(found.layers, expected.layers)


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_a_store_keeps_no_file_open_and_maps_none(tmp_path: Path) -> None:
    """A process may have a thousand open; and pages of a map that were read count as its memory."""
    _, from_store, rows = stored("llama", tmp_path, shard_tokens=10)
    assert all(from_store.store.of(row) for row in rows)
    opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    maps = Path("/proc/self/maps").read_text()
    assert not [path for path in opened if path.startswith(os.path.realpath(tmp_path))]
    assert str(tmp_path / "shard-") not in maps


def test_what_is_cut_off_after_the_store_was_opened_is_refused(tmp_path: Path) -> None:
    _, from_store, rows = stored("llama", tmp_path)
    file = tmp_path / "shard-00000.states.npy"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match="cut off"):
        from_store.store.of(rows[0])
    file.unlink()
    with pytest.raises(ValueError, match="is missing"):
        from_store.store.of(rows[0])


def test_a_lower_layer_beyond_the_precision_is_refused(tmp_path: Path) -> None:
    """Hidden states before the last normalisation are large in some models."""
    layers = torch.stack([torch.ones(1, 4), torch.full((1, 4), 1e6)], 1)
    with pytest.raises(ValueError, match=r"1e\+06.*bfloat16"):
        write_shard(tmp_path, 0, [TokenRow((1,))], [RowStates(torch.ones(1, 4), layers, torch.zeros(0, 4))], "float16")
    assert finished_shard(tmp_path, 0, StatesShard) is None


def test_weights_that_are_nan_are_named(tmp_path: Path) -> None:
    model = backbone("llama", 300)
    model.model.layers[1].mlp.up_proj.weight.data[3, 5] = float("nan")
    opened = OpenedModel.of(model, text_tokenizers.byte_level())
    with pytest.raises(ValueError, match=r"up_proj\.weight are not finite"):
        build_states(opened, [TokenRow((1, 2))], tmp_path)


@pytest.mark.parametrize("kind", [list, tuple])
def test_rows_of_a_text_make_a_datastore(tmp_path: Path, kind: type) -> None:
    """Whatever kind of sequence the rows are. A key stands for the token after it."""
    opened = OpenedModel.of(backbone("llama", 300), text_tokenizers.byte_level())
    rows = kind([TokenRow((1, 2, 3)), TokenRow((4, 5)), TokenRow((6,))])
    build_states(opened, rows, tmp_path / "text", text_rows=2)
    assert StoredKeys(tmp_path / "text").tokens_at(np.arange(4)).tolist() == [2, 3, 4, 5]
    build_states(opened, rows, tmp_path / "rows")
    with pytest.raises(ValueError, match="has states of other rows"):
        StoredKeys(tmp_path / "rows")


def test_relative_names_are_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "one" / "text.txt").write_text("a text")
    monkeypatch.chdir(tmp_path / "one")
    opened = OpenedModel.of(backbone("llama", 300), text_tokenizers.byte_level())
    task = {"data": "text.txt", "block": 16}
    build_states(opened, [TokenRow((1, 2))], "states", task=task)
    assert manifest_of(Path("states")).origin.task == task
    (tmp_path / "one" / "states").rename(tmp_path / "other" / "states")
    monkeypatch.chdir(tmp_path / "other")
    assert manifest_of(Path("states")).origin.task == task | {"data": str(tmp_path / "one" / "text.txt")}
    (tmp_path / "other" / "text.txt").write_text("one that is here")
    assert manifest_of(Path("states")).origin.task == task


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
