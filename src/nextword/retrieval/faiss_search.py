"""Approximate nearest keys with FAISS: an index beside the shards, made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.retrieval.stored_keys import StoredKeys
from nextword.runtime.files import replacing
from nextword.runtime.optional_libraries import install, missing

_BLOCK = 65_536
_SAMPLE = 200_000
"""Keys that an index is trained on, at most."""


def _faiss() -> Any:
    if missing(["faiss"]):
        raise ValueError(f"index: must have the library faiss (not installed); {install('faiss')}")
    import faiss

    return faiss


def index_path(folder: Path, euclidean: bool) -> Path:
    """Where the index of a store lies."""
    return folder / ("l2.faiss" if euclidean else "dot.faiss")


def build_index(keys: StoredKeys, factory: str, *, euclidean: bool = True, seed: int = 0) -> Path:
    """Makes the index of a store, trained on a sample of its keys.

    Args:
        keys: The store.
        factory: What FAISS's ``index_factory`` reads: ``IVF1024,Flat``, ``IVF1024,SQ8``, ``IVF1024,PQ32``, ``HNSW32``.
        euclidean: Whether distances decide, else dot products.
        seed: Of the sample.

    Raises:
        ValueError: FAISS is missing, or does not know such an index or cannot make it of so few keys.
        DiskFullError: There is no room for it.
    """
    faiss = _faiss()
    try:
        index = faiss.index_factory(keys.width, factory, faiss.METRIC_L2 if euclidean else faiss.METRIC_INNER_PRODUCT)
        drawn = np.random.default_rng(seed).choice(len(keys), min(len(keys), _SAMPLE), replace=False)
        index.train(keys.keys_at(np.sort(drawn)))
        for _, block in keys.blocks(_BLOCK):
            index.add(block.numpy())
    except RuntimeError as fault:
        said = str(fault).strip().splitlines()[-1].strip()
        raise ValueError(
            f"index: must be one that FAISS can make of {len(keys):,} keys of width {keys.width} ('{factory}' given: "
            f"{said}); such as IVF64,SQ8"
        ) from None
    path = index_path(keys.folder, euclidean)
    _write(index, path)
    return path


def _write(index: Any, path: Path) -> None:
    """Writes an index, whole or not at all.

    Not by its name: FAISS would not notice a disk that is full when the last bytes are written.
    """
    problems: list[OSError] = []
    with replacing(path) as file:

        def put(part: bytes) -> None:
            try:
                if not problems:
                    file.write(part)
            except OSError as problem:  # FAISS would lose it
                problems.append(problem)

        _faiss().write_index(index, _faiss().PyCallbackIOWriter(put))
        if problems:
            raise problems[0]


class FaissSearch:
    """Finds keys with the index of a store, which stays on the disk where its kind allows that.

    Args:
        keys: The store.
        parameters: What FAISS's ``ParameterSpace`` reads, such as ``nprobe=32`` or ``efSearch=128``; may be empty.
        euclidean: Whether distances decide, else dot products.

    Raises:
        ValueError: FAISS or the index is missing, the index has another number of keys, or no such parameters.
    """

    def __init__(self, keys: StoredKeys, parameters: str = "", euclidean: bool = True) -> None:
        faiss, path = _faiss(), index_path(keys.folder, euclidean)
        if not path.is_file():
            command = f"nextword datastore index {keys.folder} --factory IVF64,SQ8{'' if euclidean else ' --dot'}"
            raise ValueError(f"index: must be there ('{path}' is not); run '{command}', or search exactly")
        try:
            self.index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            if parameters:
                faiss.ParameterSpace().set_index_parameters(self.index, parameters)
        except RuntimeError as fault:
            said = str(fault).strip().splitlines()[-1].strip()
            raise ValueError(
                f"index: must be one that FAISS can read ('{path}', '{parameters}' given: {said})"
            ) from None
        if self.index.ntotal != len(keys) or self.index.d != keys.width:
            raise ValueError(
                f"index: must be made of this store ('{path}' has {self.index.ntotal:,} keys, the store "
                f"{len(keys):,}); make it again"
            )

    def nearest(self, queries: Float[Tensor, "N D"], count: int) -> Int[Tensor, "N count"]:
        """Numbers of the keys that were found, nearest first; -1 where fewer were."""
        _, numbers = self.index.search(np.ascontiguousarray(queries.detach().float().cpu().numpy()), count)
        return torch.from_numpy(numbers).to(queries.device)
