"""FACE over two processes: one set of counts, as if one process had seen both batches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing

from nextword.objectives.objective import on_every_process
from tests.helpers.trained_by_objectives import Batch, build_objective


def work(rank: int, meeting: str, results: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    objective = build_objective("face:gpr")
    totals = [Batch(seed=10 * step + rank).loss(objective).total.item() for step in range(2)]
    agreed = [on_every_process(here, torch.device("cpu")) for here in (True, rank == 0, False)]
    torch.save({"counts": objective.counts, "totals": totals, "agreed": agreed}, f"{results}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_count_together(tmp_path: Path) -> None:
    multiprocessing.spawn(work, (str(tmp_path / "meeting"), str(tmp_path)), nprocs=2)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    alone = build_objective("face:gpr")
    expected: list[list[float]] = [[], []]
    for step in range(2):
        batches = [Batch(seed=10 * step + rank) for rank in range(2)]
        for batch in batches:  # both are counted before either is weighted
            batch.loss(alone)
        for rank, batch in enumerate(batches):
            again = build_objective("face:gpr")
            own = torch.bincount(batch.targets[batch.targets != -100], minlength=9)
            again.counts += alone.counts - own
            expected[rank].append(batch.loss(again).total.item())
    for rank in range(2):
        assert torch.equal(found[rank]["counts"], alone.counts)
        torch.testing.assert_close(found[rank]["totals"], expected[rank])
        assert found[rank]["agreed"] == [True, False, False]
