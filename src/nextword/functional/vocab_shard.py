"""The columns of dense scores (N, V) on this process: all columns, or a vocabulary shard.

Code that sums over the tokens of a row or picks tokens calls the methods of these classes. Everything else in a loss
(products, nonlinearities, exponentials and their gradients) works on each column separately.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.probability import top_k

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class VocabShard:
    """All V columns on one process. ``SharedColumns`` has the same methods for columns divided among processes.

    >>> import torch
    >>> scores = torch.tensor([[1.0, 3.0, 2.0]])
    >>> ALL_COLUMNS.peak(scores), ALL_COLUMNS.gather(scores, torch.tensor([[2]]))
    (tensor([[3.]]), tensor([[2.]]))
    """

    processes = 1
    """Number of processes that share the columns."""

    def peak(self, scores: Float[Tensor, "N _"]) -> Float[Tensor, "N 1"]:
        """The largest score of each row; no gradient."""
        return scores.amax(-1, keepdim=True)

    def total(self, part: Tensor) -> Tensor:
        """The sum over all columns; ``part`` is the sum over this process's columns."""
        return part

    def gather(self, scores: Float[Tensor, "N _"], ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """The scores of K tokens per row."""
        return scores.gather(1, ids)

    def scatter_add_(
        self, scores: Float[Tensor, "N _"], ids: Int[Tensor, "N K"], values: Float[Tensor, "N K"]
    ) -> Float[Tensor, "N _"]:
        """Adds ``values`` to the scores of K tokens per row, in place."""
        return scores.scatter_add_(1, ids, values)

    def writable(
        self, ids: Int[Tensor, "N K"], values: Float[Tensor, "N K"], present: Bool[Tensor, "N K"]
    ) -> tuple[Int[Tensor, "N K"], Float[Tensor, "N K"], Bool[Tensor, "N K"]]:
        """Columns and values to write on this process to set ``values`` at ``ids``, and a mask of those to write."""
        return ids, values, present

    def read_by_all(self, tensor: Tensor) -> Tensor:
        """Marks a tensor that is the same on all processes, so that its gradient is summed over processes."""
        return tensor

    def top_k(self, scores: Float[Tensor, "N _"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
        """Values and tokens of the ``k`` largest scores of each row, in decreasing order; no gradient."""
        return top_k(scores, k)

    def whole(self, scores: Float[Tensor, "N _"]) -> Float[Tensor, "N V"]:
        """The scores of all columns, gathered from all processes."""
        return scores

    def from_holders(
        self, ids: Int[Tensor, "B K"], compute: Callable[[Int[Tensor, "B K"]], Float[Tensor, "B Q K"]]
    ) -> Float[Tensor, "B Q K"]:
        """The results of ``compute`` for the tokens ``ids``, each from the process with the token's embedding."""
        return compute(ids)

    @property
    def tokens(self) -> Int[Tensor, "_"] | None:
        """The tokens on this process; None: all, in order."""
        return None

    def held(self, ids: Int[Tensor, "K"]) -> Int[Tensor, "_"]:
        """The tokens of ``ids`` that are on this process."""
        return ids

    def rows(self, ids: Int[Tensor, "K"]) -> Int[Tensor, "K"]:
        """For each of ``ids``, which are tokens of this process, its row in this process's part of the embedding."""
        return ids

    def of_group(self, ids: Int[Tensor, "K"]) -> VocabShard:
        """The columns of a group of tokens; a token is then identified by its index in ``ids``."""
        return self

    def rows_at_once(self, limit: int) -> int:
        """Number of rows to compute at once, the same on all processes; ``limit`` is this process's maximum."""
        return limit


ALL_COLUMNS = VocabShard()


# -- The columns of dense scores divided among processes, like the rows of an output embedding that is a DTensor with
# Shard(0).
#
# Every process has the same states and computes the scores of its own tokens. The processes exchange only the few
# numbers that a softmax needs from a whole row: the row's peak, its sum of exponentials, the target's score, and in
# the backward pass the gradient of the states (Shoeybi et al. 2019, Megatron-LM, section 3).


class SharedColumns(VocabShard):
    """A shard of the columns. All processes of the mesh must call each method, with the same rows and tokens."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh
        self.processes = mesh.size()

    @abstractmethod
    def _here(self, ids: Int[Tensor, "*shape"]) -> tuple[Int[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
        """The local column of each token, and whether the token is on this process; if not, the column is arbitrary."""

    def peak(self, scores: Float[Tensor, "N _"]) -> Float[Tensor, "N 1"]:
        empty = scores.new_full((len(scores), 1), -torch.inf)  # a process may have no token of a group
        return self._reduced(scores.amax(-1, keepdim=True) if scores.shape[1] else empty, "max")

    def total(self, part: Tensor) -> Tensor:
        """The sum over processes; each process gets the full gradient."""
        return self._reduced(part, "sum")

    def gather(self, scores: Float[Tensor, "N _"], ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        if not scores.shape[1]:
            return self.total(scores.new_zeros(ids.shape))
        columns, here = self._here(ids)
        return self.total(scores.gather(1, columns).masked_fill(~here, 0.0))

    def from_holders(self, ids: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Each process computes its own tokens; results for tokens of other processes are masked."""
        columns, here = self._here(ids)
        return self.total(compute(columns).masked_fill(~here[:, None], 0.0))

    def scatter_add_(self, scores: Tensor, ids: Tensor, values: Tensor) -> Tensor:
        if not scores.shape[1]:
            return scores
        columns, here = self._here(ids)
        return scores.scatter_add_(1, columns, values.masked_fill(~here, 0.0))

    def writable(self, ids: Tensor, values: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        columns, here = self._here(ids)
        return columns, self.read_by_all(values), present & here

    def read_by_all(self, tensor: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, Partial, Replicate

        same = DTensor.from_local(tensor, self.mesh, [Replicate()], run_check=False)
        return same.to_local(grad_placements=[Partial()])

    def rows_at_once(self, limit: int) -> int:
        """The smallest ``limit`` of all processes, so that all compute the same number of chunks."""
        return int(self._reduced(torch.tensor(limit, device=self.mesh.device_type), "min"))

    def _reduced(self, part: Tensor, operation: Any) -> Tensor:
        from torch.distributed.tensor import DTensor, Partial

        return DTensor.from_local(part, self.mesh, [Partial(operation)], run_check=False).full_tensor()


class ColumnRange(SharedColumns):
    """A range of tokens for each process, as DTensor's ``Shard`` divides rows; the last range may be shorter."""

    def __init__(self, mesh: DeviceMesh, size: int) -> None:
        super().__init__(mesh)
        self._size, self._width = size, -(-size // self.processes)
        self._begin, self._end = self._range(mesh.get_local_rank())

    def _range(self, rank: int) -> tuple[int, int]:
        return min(rank * self._width, self._size), min((rank + 1) * self._width, self._size)

    def _here(self, ids: Int[Tensor, "*shape"]) -> tuple[Int[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
        columns = (ids - self._begin).clamp(0, self._end - self._begin - 1)
        return columns, (ids >= self._begin) & (ids < self._end)

    def top_k(self, scores: Float[Tensor, "N _"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
        sizes = [min(k, end - begin) for begin, end in map(self._range, range(self.processes))]
        values, columns = top_k(scores, min(k, scores.shape[1]))
        best = self._from_all(values, sizes).topk(k)
        return best.values, self._from_all(columns + self._begin, sizes).gather(1, best.indices)

    def _from_all(self, part: Float[Tensor, "N _"] | Int[Tensor, "N _"], sizes: list[int]) -> Tensor:
        """Gathers ``part`` of all processes, with ``sizes[i]`` columns of process i."""
        from torch.distributed.tensor import DTensor, Shard

        width = max(sizes)  # every process must contribute a part of the same size
        padded = torch.nn.functional.pad(part, (0, width - part.shape[1]))
        every = DTensor.from_local(padded, self.mesh, [Shard(1)], run_check=False).full_tensor()
        return torch.cat([every[:, rank * width : rank * width + size] for rank, size in enumerate(sizes)], 1)

    def whole(self, scores: Float[Tensor, "N _"]) -> Float[Tensor, "N V"]:
        from torch.distributed.tensor import DTensor, Shard

        shape: dict[str, Any] = {"shape": torch.Size([len(scores), self._size]), "stride": (self._size, 1)}
        parts = DTensor.from_local(scores.contiguous(), self.mesh, [Shard(1)], run_check=False, **shape)
        return parts.full_tensor()

    @property
    def tokens(self) -> Int[Tensor, "_"]:
        return torch.arange(self._begin, self._end, device=self.mesh.device_type)

    def held(self, ids: Int[Tensor, "K"]) -> Int[Tensor, "_"]:
        return ids[self._here(ids)[1]]

    def rows(self, ids: Int[Tensor, "K"]) -> Int[Tensor, "K"]:
        return ids - self._begin

    def of_group(self, ids: Int[Tensor, "K"]) -> VocabShard:
        return PickedColumns(self.mesh, self._here(ids)[1])


class PickedColumns(SharedColumns):
    """The columns of a group of tokens, numbered by their index in the group; ``here`` marks those on this process."""

    def __init__(self, mesh: DeviceMesh, here: Bool[Tensor, "K"]) -> None:
        super().__init__(mesh)
        self._present = here
        self._column = (here.cumsum(0) - 1).clamp_min(0)

    def _here(self, ids: Int[Tensor, "*shape"]) -> tuple[Int[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
        return self._column[ids], self._present[ids]

    def whole(self, scores: Float[Tensor, "N _"]) -> Float[Tensor, "N K"]:
        every = scores.new_zeros(len(scores), len(self._present))
        return self.total(every.index_copy(1, self._present.nonzero()[:, 0], scores))
