"""Nearest-neighbour search: exact, block by block, or with FAISS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.retrieval.datastore.stored_keys import StoredKeys
from nextword.runtime.files import replacing
from nextword.runtime.optional_libraries import install, missing

_BLOCK = 8_192
"""Number of keys compared at once."""

_QUERIES = 1024
"""Number of queries compared at once (64 MiB of scores)."""

_GROUP = 32
"""Size of a group of neighbouring keys; a group is searched only if its best key may be among the nearest."""


@runtime_checkable
class Keys(Protocol):
    """Keys (hidden states) that can be searched."""

    def __len__(self) -> int: ...

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "B D"]]]:
        """All keys in blocks of at most ``size``, each with the number of its first key."""
        ...


class ExactSearch:
    """Finds the keys nearest to a query: smallest Euclidean distance or, if not ``euclidean``, largest dot product."""

    def __init__(self, keys: Keys, euclidean: bool = True) -> None:
        self.keys = keys
        self.euclidean = euclidean

    @torch.no_grad()
    def nearest(self, queries: Float[Tensor, "N D"], count: int) -> Int[Tensor, "N count"]:
        """Numbers of the ``count`` keys nearest to each query, nearest first; -1 where there are fewer keys."""
        return torch.cat([self._of(part, count) for part in torch.split(queries.detach().float(), _QUERIES)])

    def _of(self, queries: Float[Tensor, "N D"], count: int) -> Int[Tensor, "N count"]:
        scores = queries.new_full((len(queries), count), -torch.inf)
        numbers = torch.full((len(queries), count), -1, dtype=torch.long, device=queries.device)
        for first, block in self.keys.blocks(_BLOCK):
            keys = block.to(queries.device)
            found = queries @ keys.T
            if self.euclidean:  # |q|² is the same for all keys
                found = found.sub_(torch.linalg.vector_norm(keys, dim=1).square_().div_(2))
            best, at = _best(found, count, scores[:, -1:])
            # the earlier best are first, so of equal ones the earliest key stays
            both = torch.cat([scores, best], 1)
            of_both = torch.cat([numbers, at + first], 1)
            scores, chosen = both.topk(count)
            numbers = of_both.gather(1, chosen)
        return numbers


def _best(
    scores: Float[Tensor, "N B"], count: int, least: Float[Tensor, "N 1"]
) -> tuple[Float[Tensor, "N M"], Int[Tensor, "N M"]]:
    """The best scores of each row with their columns: the ``count`` best, or all scores above ``least``.

    Most scores of a block are below ``least``. So the largest score of each group is compared first, and only groups
    above ``least`` are searched.
    """
    if scores.shape[1] % _GROUP:
        found = scores.topk(min(count, scores.shape[1]))
        return found.values, found.indices
    groups = scores.view(len(scores), scores.shape[1] // _GROUP, _GROUP)
    largest = groups.amax(2)
    most = int((largest > least).sum(1).max()) if len(scores) else 0
    chosen = largest.topk(min(count, most)).indices
    inside = groups.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    values, at = inside.topk(min(count, inside.shape[1]))
    return values, chosen.gather(1, at // _GROUP) * _GROUP + at % _GROUP


# -- Approximate nearest keys with FAISS: an index beside the shards, made once.

_KEYS_AT_ONCE = 65_536
_SAMPLE = 200_000
"""Maximum number of keys for training an index."""


def _faiss() -> Any:
    if missing(["faiss"]):
        raise ValueError(f"index: must have the library faiss (not installed); {install('faiss')}")
    import faiss

    return faiss


def index_path(folder: Path, euclidean: bool) -> Path:
    """Path of the FAISS index of the datastore in ``folder``, for Euclidean distances or dot products."""
    return folder / ("l2.faiss" if euclidean else "dot.faiss")


def build_index(keys: StoredKeys, factory: str, *, euclidean: bool = True, seed: int = 0) -> Path:
    """Builds the FAISS index of the datastore ``keys`` in its folder, and returns the index's path.

    ``factory`` is a string for FAISS's ``index_factory``, such as ``IVF1024,Flat``, ``IVF1024,SQ8``, ``IVF1024,PQ32``
    or ``HNSW32``. The index is trained on up to 200,000 keys, which ``seed`` selects.

    Raises:
        ValueError: If FAISS is missing, does not know the index type, or there are too few keys for it.
        DiskFullError: If there is not enough disk space.
    """
    faiss = _faiss()
    try:
        index = faiss.index_factory(keys.width, factory, faiss.METRIC_L2 if euclidean else faiss.METRIC_INNER_PRODUCT)
        drawn = np.random.default_rng(seed).choice(len(keys), min(len(keys), _SAMPLE), replace=False)
        index.train(keys.keys_at(np.sort(drawn)))
        for _, block in keys.blocks(_KEYS_AT_ONCE):
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
    # FAISS gets no file name, because it would not notice that the disk is full when it writes the last bytes.
    problems: list[OSError] = []
    with replacing(path) as file:

        def put(part: bytes) -> None:
            try:
                if not problems:
                    file.write(part)
            except OSError as problem:  # FAISS would lose the error
                problems.append(problem)

        _faiss().write_index(index, _faiss().PyCallbackIOWriter(put))
        if problems:
            raise problems[0]


class FaissSearch:
    """Searches with the FAISS index of the datastore ``keys``. The index stays on disk if its type allows this.

    Args:
        parameters: String for FAISS's ``ParameterSpace``, such as ``nprobe=32`` or ``efSearch=128``; may be empty.

    Raises:
        ValueError: If FAISS or the index is missing, the index has another number of keys, or a parameter is unknown.
    """

    def __init__(self, keys: StoredKeys, parameters: str = "", euclidean: bool = True) -> None:
        faiss, path = _faiss(), index_path(keys.folder, euclidean)
        if not path.is_file():
            command = f"nextword datastore index {keys.folder} --factory IVF64,SQ8{'' if euclidean else ' --dot'}"
            raise ValueError(f"index: must exist ('{path}' does not); run '{command}', or search exactly")
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
        """Numbers of the ``count`` keys that FAISS finds nearest to each query, nearest first; -1 if it finds fewer."""
        _, numbers = self.index.search(np.ascontiguousarray(queries.detach().float().cpu().numpy()), count)
        return torch.from_numpy(numbers).to(queries.device)


Search = ExactSearch | FaissSearch


# -- Keys that are appended during use, up to a maximum number; the oldest are dropped first.


class RecentKeys:
    """The ``most`` keys that were appended last, in memory, numbered from the oldest (0). New keys replace the oldest.

    ``width`` is the number of dimensions of a key, ``start`` the token before every document.

    >>> recent = RecentKeys(width=1, most=2, start=0)
    >>> for position in range(3):
    ...     recent.append(torch.tensor([[float(position)]]), torch.tensor([position]))
    >>> recent.tokens_at(np.array([0, 1])), len(recent)
    (array([1, 2]), 2)
    """

    def __init__(self, width: int, most: int, start: int) -> None:
        if most < 1:
            raise ValueError(f"most: must be at least 1 ({most} given)")
        self.most, self.start = most, start
        self._keys = np.zeros((most, width), dtype=np.float32)
        self._tokens = np.zeros(most, dtype=np.int64)
        self._places = np.zeros((most, 2), dtype=np.int64)
        self._appended = self._texts = 0

    def __len__(self) -> int:
        return min(self._appended, self.most)

    @property
    def width(self) -> int:
        """Number of dimensions of a key."""
        return int(self._keys.shape[1])

    def append(self, keys: Float[Tensor, "T D"], tokens: Int[Tensor, "T"]) -> None:
        """Adds a text as a new document: ``keys`` are its states, ``tokens`` the token after each state."""
        kept = slice(max(0, len(tokens) - self.most), len(tokens))
        places = np.arange(kept.start, kept.stop)
        at = (self._appended + places) % self.most
        self._keys[at] = keys[kept].detach().float().cpu().numpy()
        self._tokens[at] = tokens[kept].cpu().numpy()
        self._places[at] = np.stack([np.full_like(places, self._texts), places], 1)
        self._appended += len(tokens)
        self._texts += 1

    def _at(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers + max(0, self._appended - self.most)) % self.most

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "B D"]]]:
        """All keys in blocks of at most ``size``, oldest first, each with the number of its first key."""
        for begin in range(0, len(self), size):
            numbers = np.arange(begin, min(begin + size, len(self)))
            yield begin, torch.from_numpy(self.keys_at(numbers))

    def keys_at(self, numbers: Int[np.ndarray, "M"]) -> Float[np.ndarray, "M D"]:
        """The keys with these ``numbers``."""
        return self._keys.take(self._at(numbers), axis=0)

    def tokens_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        """The token after each of the keys with these ``numbers``."""
        return self._tokens.take(self._at(numbers))

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """Kept tokens of ``document`` from position ``first`` to ``last`` (inclusive), and the first one's position."""
        numbers = np.arange(len(self))
        of, place = self.positions_at(numbers).T
        chosen = numbers[(of == document) & (place >= first) & (place <= last)]
        return self.tokens_at(chosen).tolist(), int(place[chosen[0]]) if len(chosen) else first

    def positions_at(self, numbers: Int[np.ndarray, "M"]) -> Int[np.ndarray, "M 2"]:
        """For the token after each key of ``numbers``: its document (in order of appending), and its position there."""
        return self._places.take(self._at(numbers), axis=0)
