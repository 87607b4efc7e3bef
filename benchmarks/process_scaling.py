"""Measures a training step by number of processes: time of each head relative to plain softmax, and memory with FSDP2.

The processes of one machine, with one thread each, share one batch. Heads are interleaved with plain softmax under the
same launcher, as in ``training_step.py``. ``efficiency`` is the ratio in one process divided by that in several; if it
is 1, a head scales like softmax. ``share`` is the memory of weights, gradients and AdamW's states per process with
FSDP2, relative to a single process. Rows are appended to ``benchmarks/data/process_scaling.csv``.

    python benchmarks/process_scaling.py
    python benchmarks/process_scaling.py --processes 1 2 4 8 --head mos:3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from interleaved import beside, ratio, seconds_of
from launched import launched
from options import at_least, method, parser, settled
from rows import append, surroundings
from shapes import attached, backbone
from texts import repeating
from torch import Tensor, distributed, nn

from nextword.experiments.training.sharding import shard
from nextword.runtime import processes

HEADS = ("softmax", "cache", "softmax+cpr:20,100", "softmax+mi", "softmax+proj", "mos:3", "sigsoftmax", "pg", "ps")
HEADS += ("copynet", "f2")
BASELINE = "softmax"


def main(argv: Sequence[str] | None = None) -> None:
    """Starts itself in so many processes, one number after another, and writes the rows."""
    options = parser(__doc__, "process_scaling", rounds=7)
    options.add_argument("--processes", type=at_least(1), nargs="+", default=[1, 2, 4], metavar="N")
    options.add_argument("--head", type=method, action="append", help="measure only these heads and softmax")
    options.add_argument("--size", default="tiny")
    options.add_argument("--batch", type=at_least(1), default=8)
    options.add_argument("--length", type=at_least(2), default=128)
    given = settled(options, argv, size="toy", batch=4, length=16, processes=[1, 2], head=["cache"])
    if "RANK" in os.environ:
        _measure(given)
        return
    found = {count: _started(count, given) for count in given.processes}
    alone = found.get(1, {})
    rows = [
        {
            "size": given.size, "batch": given.batch, "length": given.length, "processes": count, "head": head,
            "ms": round(one["ms"], 2), "over_softmax": round(one["ratio"], 3),
            "efficiency": round(alone[head]["ratio"] / one["ratio"], 3) if alone else "",
            "mib_fsdp": round(one["bytes"] / 2**20, 2),
            "share": round(one["bytes"] / alone[head]["bytes"], 3) if alone else "",
            **surroundings(),
        }
        for count, heads in found.items()
        for head, one in heads.items()
    ]  # fmt: skip
    for row in rows:
        shown = ("processes", "head", "ms", "over_softmax", "efficiency", "share")
        print("  ".join(f"{name} {row[name]}" for name in shown))
    append(given.out, rows)


def _started(count: int, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """What the main one of so many processes has measured."""
    words = [f"--{name}={getattr(given, name)}" for name in ("size", "batch", "length", "rounds")]
    words += [f"--head={head}" for head in given.head or ()]
    return dict(launched(__file__, count, words))


def _measure(given: argparse.Namespace) -> None:
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    names = [BASELINE, *(head for head in given.head or HEADS if head != BASELINE)]
    ids = _share(given.batch, repeating(backbone(given.size).config.vocab_size, given.batch, given.length))
    models = {name: attached(backbone(given.size), name).train() for name in names}
    called = {name: nn.parallel.DistributedDataParallel(model) for name, model in models.items()}

    def step(model: Any) -> float:
        distributed.barrier()
        seconds = seconds_of(lambda: model(input_ids=ids, labels=ids, return_logits=False).loss.backward())
        model.zero_grad(set_to_none=True)
        return seconds

    timed = beside({name: lambda model=model: step(model) for name, model in called.items()}, BASELINE, given.rounds)
    found = {
        name: {"ms": 1000 * statistics.median(own), "ratio": ratio(own, baseline), "bytes": _held(given, name, ids)}
        for name, (own, baseline) in timed.items()
    }
    if processes.is_main():
        given.out.write_text(json.dumps(found), encoding="utf-8")
    distributed.destroy_process_group()


def _share(batch: int, ids: Tensor) -> Tensor:
    rows = batch // processes.count()
    begin = distributed.get_rank() * rows
    return ids[begin : begin + rows]


def _held(given: argparse.Namespace, head: str, ids: Tensor) -> int:
    """Bytes of weights, gradients and optimiser states in this process after one step, with FSDP2."""
    model: Any = attached(backbone(given.size), head).train()
    if processes.count() > 1:
        shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    model(input_ids=ids, labels=ids, return_logits=False).loss.backward()
    optimizer.step()
    held = [*model.parameters(), *(weight.grad for weight in model.parameters() if weight.grad is not None)]
    held += [state for states in optimizer.state.values() for state in states.values() if isinstance(state, Tensor)]
    here = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in held]
    return sum(tensor.numel() * tensor.element_size() for tensor in here)


if __name__ == "__main__":
    main()
