"""Search with FAISS beside exact search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.retrieval import ExactSearch, FaissSearch, StoredKeys
from nextword.retrieval.faiss_search import build_index
from tests.helpers.small_datastores import small_store
from tests.helpers.word_models import word_tokenizer

pytest.importorskip("faiss")


@pytest.mark.parametrize("euclidean", [True, False])
@pytest.mark.parametrize("factory", ["Flat", "IVF4,Flat", "HNSW8"])
def test_finds_what_exact_search_finds(tmp_path: Path, factory: str, euclidean: bool) -> None:
    keys = StoredKeys(small_store(tmp_path)[1])
    build_index(keys, factory, euclidean=euclidean)
    parameters = {"IVF4,Flat": "nprobe=4", "HNSW8": "efSearch=512"}.get(factory, "")
    queries = torch.from_numpy(keys.keys_at(np.arange(0, len(keys), 7))) + 0.01
    found = FaissSearch(keys, parameters, euclidean).nearest(queries, 5)
    exact = ExactSearch(keys, euclidean).nearest(queries, 5)
    recall = (found[:, :, None] == exact[:, None, :]).any(2).double().mean()
    assert recall >= 0.95


def test_a_model_with_an_approximate_index_has_a_distribution(tmp_path: Path) -> None:
    """Few lists are looked into, so fewer keys than asked for are found."""
    folder, store = small_store(tmp_path)
    build_index(StoredKeys(store), "IVF16,SQ8")
    model = nw.attach(nw.load(folder), f'knn:store="{store}",k=40,index="nprobe=1"').eval()
    nw.check(model, ["the old dog ran far"], tokenizer=word_tokenizer(), lengths=[5]).raise_if_failed()


def test_what_faiss_cannot_do_is_one_line(tmp_path: Path) -> None:
    keys = StoredKeys(small_store(tmp_path)[1])
    with pytest.raises(ValueError, match="index: must be there"):
        FaissSearch(keys)
    with pytest.raises(ValueError, match="index: must be one that FAISS can make of 192 keys of width 16"):
        build_index(keys, "IVFmany")
