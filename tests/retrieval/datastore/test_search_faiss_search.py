"""Search with FAISS beside exact search."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.retrieval import ExactSearch, FaissSearch, StoredKeys
from nextword.retrieval.datastore.search import build_index
from nextword.runtime.files import DiskFullError
from tests.helpers.full_disk import largest_file, small_disk
from tests.helpers.small_datastores import small_store
from tests.helpers.word_models import word_tokenizer

pytest.importorskip("faiss")


@pytest.mark.parametrize("euclidean", [True, False])
@pytest.mark.parametrize(
    ("factory", "parameters"),
    [("Flat", ""), ("IVF4,Flat", "nprobe=4"), ("IVF4,SQ8", "nprobe=4"), ("HNSW8", "efSearch=512")],
)
def test_finds_what_exact_search_finds(tmp_path: Path, factory: str, parameters: str, euclidean: bool) -> None:
    keys = StoredKeys(small_store(tmp_path)[1])
    build_index(keys, factory, euclidean=euclidean)
    queries = torch.from_numpy(keys.keys_at(np.arange(0, len(keys), 7))) + 0.01
    found = FaissSearch(keys, parameters, euclidean).nearest(queries, 5)
    exact = ExactSearch(keys, euclidean).nearest(queries, 5)
    recall = (found[:, :, None] == exact[:, None, :]).any(2).double().mean()
    assert recall >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("factory", ["IVF16,SQ8", "IVF16,PQ4x4"])
def test_a_model_with_an_approximate_index_has_a_distribution(tmp_path: Path, factory: str) -> None:
    """Few lists are looked into, so fewer keys than asked for are found, and coarsely."""
    folder, store = small_store(tmp_path)
    build_index(StoredKeys(store), factory)
    model = nw.attach(nw.load(folder), f'knn:store="{store}",k=40,index="nprobe=1"').eval()
    nw.check(model, ["the old dog ran far"], tokenizer=word_tokenizer(), lengths=[5]).raise_if_failed()


def test_what_faiss_cannot_do_is_one_line(tmp_path: Path) -> None:
    keys = StoredKeys(small_store(tmp_path)[1])
    build = f"index {keys.folder} --factory IVF64,SQ8"
    for euclidean, command in ((True, f"{build}'"), (False, f"{build} --dot'")):
        with pytest.raises(ValueError, match=f"index: must exist .* run 'nextword datastore {re.escape(command)}"):
            FaissSearch(keys, euclidean=euclidean)
    with pytest.raises(ValueError, match=r"index:.*192 keys of width"):
        build_index(keys, "IVFmany")


@pytest.mark.slow
@pytest.mark.parametrize("euclidean", [True, False])
def test_product_quantisation_finds_most_of_it(tmp_path: Path, euclidean: bool) -> None:
    """Of 4 bits for each number. Distances to what was found are those to the keys themselves."""
    folder, store = small_store(tmp_path)
    keys = StoredKeys(store)
    path = build_index(keys, "IVF4,PQ16x4", euclidean=euclidean)
    assert path.stat().st_size < 192 * 16 * 2 + 4096, "8 bytes a key, and the books"
    queries = torch.from_numpy(keys.keys_at(np.arange(0, len(keys), 7))) + 0.01
    found = FaissSearch(keys, "nprobe=4", euclidean).nearest(queries, 10)
    exact = ExactSearch(keys, euclidean).nearest(queries, 5)
    recall = (found[:, :, None] == exact[:, None, :]).any(1).double().mean()
    assert recall >= 0.9
    spec = f'knn:store="{store}",k=5,overlap=0,index="nprobe=4",distance={"euclidean" if euclidean else "dot"}'
    model, ids = nw.attach(nw.load(folder), spec).eval(), torch.tensor([[1, 4, 5, 6, 7]])
    states = model.backbone.transformer(ids).last_hidden_state[0]
    entries = model.distribution(ids).attention
    numbers = FaissSearch(keys, "nprobe=4", euclidean).nearest(states, 5)
    near = torch.from_numpy(keys.keys_at(numbers.numpy().ravel())).view(5, 5, 16)
    scores = -(states[:, None] - near).square().sum(-1) if euclidean else (near @ states[:, :, None])[:, :, 0]
    shares = (scores / 4).softmax(1)
    torch.testing.assert_close(entries.scores.masked_fill(~entries.visible, -torch.inf).softmax(1), shares)


@pytest.mark.parametrize("size", [100, 5_000, 12_000])
def test_a_full_disk_keeps_the_index_that_is_there(tmp_path: Path, size: int) -> None:
    """Also where only the last bytes find no room: 192 keys of 64 bytes are 12,288."""
    store = small_store(tmp_path)[1]
    keys = StoredKeys(store)
    before = build_index(keys, "Flat").read_bytes()
    others = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}
    with largest_file(size), pytest.raises(DiskFullError, match=r"l2\.faiss cannot"):
        build_index(keys, "IVF4,Flat")
    assert {path.name: path.stat().st_mtime_ns for path in store.iterdir()} == others
    assert (store / "l2.faiss").read_bytes() == before
    build_index(keys, "IVF4,Flat")
    assert FaissSearch(keys, "nprobe=4").index.nlist == 4


def test_a_real_full_disk(tmp_path: Path) -> None:
    _, store = small_store(tmp_path)
    with small_disk(tmp_path / "disk", 15 * 4096 + sum(8192 + path.stat().st_size for path in store.iterdir())) as disk:
        shutil.copytree(store, disk / "store")
        keys = StoredKeys(disk / "store")
        (disk / "fills").write_bytes(b"0" * max(0, shutil.disk_usage(disk).free - 2 * 4096))
        with pytest.raises(DiskFullError, match="No space left on device"):
            build_index(keys, "Flat")
        (disk / "fills").unlink()
        build_index(keys, "Flat")
        assert len(FaissSearch(keys).nearest(torch.zeros(1, 16), 3)[0]) == 3
