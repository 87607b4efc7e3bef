"""Measures memory per process of a training sharded with FSDP2, by the source of its weights.

``nextword train --fsdp`` trains one step. The model is newly ``made``, or loaded from a folder with weights in float32
or bfloat16; ``weights`` is the precision of training. ``start_mib`` is the peak memory of a process until it has its
shard, ``train_mib`` until the model is saved; both are relative to a process that has trained a toy model. The row
shows the process with the highest peak. Memory-mapped pages are not counted, because processes share them and the
system can free them. Linux only. Rows are appended to ``benchmarks/data/start_memory.csv``.

    python benchmarks/start_memory.py
    python benchmarks/start_memory.py --width 2048 --processes 1 2 4
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from launched import launched
from options import at_least, parser, settled
from rows import append, surroundings
from safetensors import safe_open

import nextword as nw
from nextword.experiments.training import one_training
from nextword.experiments.training.train_config import configured
from nextword.experiments.training.train_model import train
from nextword.runtime import processes

MADE = "made"
CASES = ((MADE, "float32"), ("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16"))
"""What a training begins with, and the precision of its weights."""
TOY = 16
"""Width of a model that hardly takes memory."""
EVERY = 0.002
"""Seconds between two looks at the memory."""


def main(argv: Sequence[str] | None = None) -> None:
    """Starts itself in so many processes, one number after another, and writes the rows."""
    options = parser(__doc__, "start_memory", rounds=None)
    options.add_argument("--processes", type=at_least(1), nargs="+", default=[1, 2], metavar="N")
    options.add_argument("--width", type=at_least(16), default=1024)
    options.add_argument("--layers", type=at_least(1), default=4)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--case", type=int, help=argparse.SUPPRESS)
    given = settled(options, argv, width=64, layers=2, processes=[1, 2])
    if "RANK" in os.environ:
        _measure(given)
        return
    rows = []
    with tempfile.TemporaryDirectory() as name:
        given.folder = Path(name)
        (given.folder / "text.txt").write_text("\n".join(f"The cat sat on mat {n}." for n in range(200)))
        _save_models(given)
        for count in given.processes:
            for case, (start, weights) in enumerate(CASES):
                found = _started(count, case, given)
                rows.append({"start": start, "weights": weights, "processes": count, **found, **surroundings()})
    for row in rows:
        shown = ("start", "weights", "processes", "model_mib", "start_mib", "train_mib")
        print("  ".join(f"{name} {row[name]}" for name in shown))
    append(given.out, rows)


def _save_models(given: argparse.Namespace) -> None:
    """A trained model in both precisions."""
    train(configured(*_recipe(given, MADE, "float32", given.width)), given.folder / "float32")
    model = nw.load(given.folder / "float32", dtype=torch.bfloat16)
    model.save_pretrained(given.folder / "bfloat16")
    for file in (given.folder / "float32").glob("token*"):
        (given.folder / "bfloat16" / file.name).write_bytes(file.read_bytes())


def _recipe(given: argparse.Namespace, start: str, weights: str, width: int) -> tuple[dict[str, Any], list[str]]:
    recipe = {"model": "small" if start == MADE else str(given.folder / start), "data": str(given.folder / "text.txt")}
    words = ["data.vocabulary=280", "data.block=16", "data.window=16", "data.stride=8", "training.steps=1"]
    words += ["training.batch_size=4", f"training.weights={weights}"]
    if start == MADE:
        words += [f"data.start.n_embd={width}", f"data.start.n_layer={given.layers}"]
    return recipe | {"head": "softmax+mi"}, words


def _started(count: int, case: int, given: argparse.Namespace) -> dict[str, float]:
    """What so many processes have measured."""
    words = [f"--{name}={getattr(given, name)}" for name in ("width", "layers", "folder")]
    return dict(launched(__file__, count, [*words, f"--case={case}"]))


class OwnMemory:
    """The most memory that this process has had, of which no file knows."""

    def __init__(self) -> None:
        self._least = self.most = own_bytes()
        self._ends = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def _watch(self) -> None:
        while not self._ends.wait(EVERY):
            self.most = max(self.most, own_bytes())

    @property
    def mib(self) -> float:
        """The most so far, above what there was at first."""
        return (max(self.most, own_bytes()) - self._least) / 2**20


def own_bytes() -> int:
    """Memory of this process that no file stands behind (Linux)."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) * 1024


def _measure(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    start, weights = CASES[given.case]
    recipe, words = _recipe(given, start, weights, given.width)
    out, spread = given.folder / f"{given.case}-{processes.count()}", "training.fsdp=true"
    toy, toy_words = _recipe(given, MADE, weights, TOY)
    train(configured(toy, [*toy_words, spread]), out.with_suffix(".toy"))  # libraries load parts where they need them
    memory, at_start, shard = OwnMemory(), [0.0], one_training.shard

    def noted(model: Any) -> None:
        shard(model)
        at_start[0] = memory.mib

    one_training.shard = noted
    train(configured(recipe, [*words, spread]), out)
    most = torch.tensor([at_start[0], memory.mib], dtype=torch.float64)
    torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
    if processes.is_main():
        with safe_open(out / "model.safetensors", framework="pt") as file:
            size = sum(file.get_tensor(name).nbytes for name in file.keys())  # noqa: SIM118  (it is not a mapping)
        found = dict(zip(("start_mib", "train_mib"), (round(one) for one in most.tolist()), strict=True))
        given.out.write_text(json.dumps({"model_mib": round(size / 2**20), **found}), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
