"""Every question to columns that processes share, beside the same of all columns: run as a script by ``torchrun``."""

from __future__ import annotations

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh

from nextword.functional.inplace import overwrite_, softmax_at_
from nextword.functional.vocab_shard import ALL_COLUMNS, ColumnRange, VocabShard

SIZE = 11
"""Three processes have 4, 4 and 3 of them."""
GROUP = torch.tensor([9, 0, 10, 2])
"""The second process has none of them."""
IDS = torch.tensor([[0, 10], [4, 3], [9, 9], [7, 5], [2, 8]])


def rows(count: int) -> Tensor:
    return torch.randn(len(IDS), count, dtype=torch.float64, generator=torch.Generator().manual_seed(count))


def same(found: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(found, right, rtol=1e-13, atol=1e-13)


def answers(columns: VocabShard, scores: Tensor, held: Tensor) -> None:
    """Questions without a gradient; ``held`` are the columns of ``scores`` that are held here."""
    here = scores[:, held]
    same(columns.peak(here), ALL_COLUMNS.peak(scores))
    same(columns.total(here.sum(1)), scores.sum(1))
    same(columns.whole(here), scores)
    ids = IDS % scores.shape[1]
    same(columns.gather(here, ids), scores.gather(1, ids))
    added = columns.scatter_add_(here.clone(), ids, torch.ones_like(ids, dtype=scores.dtype))
    same(added, scores.scatter_add(1, ids, torch.ones_like(ids, dtype=scores.dtype))[:, held])


def loss(columns: VocabShard, scores: Tensor, words: Tensor, held: Tensor) -> Tensor:
    """New scores for some words, then a softmax, and something of whole rows."""
    ids, present = torch.tensor([[1, 6]]).expand(len(IDS), -1), torch.tensor([[True, True]]).expand(len(IDS), -1)
    changed = overwrite_(scores[:, held] * 1.0, *columns.writable(ids, words, present))
    at_ids, total, _ = softmax_at_(changed, IDS, None, columns)
    return (at_ids - total[:, None]).square().sum() + columns.whole(scores[:, held]).sin().sum()


def main() -> None:
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),), mesh_dim_names=("vocabulary",))
    columns, every = ColumnRange(mesh, SIZE), torch.arange(SIZE)
    held, scores = columns.tokens, rows(SIZE)
    answers(columns, scores, held)
    for k in (1, 4, 7, SIZE):
        for found, right in zip(columns.top_k(scores[:, held], k), scores.topk(k), strict=True):
            same(found, right)
    assert torch.equal(GROUP[torch.isin(GROUP, held)], columns.held(GROUP))
    assert torch.equal(held[columns.rows(columns.held(GROUP))], columns.held(GROUP))
    answers(columns.of_group(GROUP), rows(len(GROUP)), torch.isin(GROUP, held).nonzero()[:, 0])
    assert columns.rows_at_once(5 + distributed.get_rank()) == 5
    mine, alone = ([leaf.requires_grad_() for leaf in (rows(SIZE), rows(2))] for _ in range(2))
    value, right = loss(columns, *mine, held), loss(ALL_COLUMNS, *alone, every)
    same(value, right)
    found = torch.autograd.grad(value, mine)
    expected = torch.autograd.grad(right, alone)
    same(columns.total(found[0]), expected[0])  # every process has that of its own columns
    same(found[1], expected[1])
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
