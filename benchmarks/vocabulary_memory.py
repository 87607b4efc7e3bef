"""Measures memory of an output layer that is sharded over processes: its weights and the peak of a loss, per process.

The model has one Llama layer, 256 wide, with untied, frozen input embeddings, and reads 512 tokens. ``weight_mib`` are
the rows of the output embedding in one process. ``peak_mib`` is the peak of a loss and its gradients above all weights,
including the gradient of these rows. The row shows the process with the highest peak. Rows are appended to
``benchmarks/data/vocabulary_memory.csv``.

    python benchmarks/vocabulary_memory.py
    python benchmarks/vocabulary_memory.py --vocabulary 128000 --head f2
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from launched import launched
from options import at_least, method, parser, settled
from peak_memory import peak_bytes
from rows import append, surroundings
from shapes import attached
from texts import repeating
from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM

from nextword.experiments.training.sharding import share_vocabulary
from nextword.runtime import processes
from nextword.runtime.devices import held_here

HEADS = ("softmax", "softmax+cpr:20,100", "mos:3", "f2")
LISTS = ("vocabulary", "head")


def main(argv: Sequence[str] | None = None) -> None:
    """Starts itself in so many processes, one number after another, and writes the rows."""
    options = parser(__doc__, "vocabulary_memory", rounds=None)
    options.add_argument("--processes", type=at_least(1), nargs="+", default=[1, 2, 4], metavar="N")
    options.add_argument("--vocabulary", type=at_least(100), action="append", help="only this number of tokens")
    options.add_argument("--head", type=method, action="append", help="only these heads")
    options.add_argument("--length", type=at_least(2), default=512)
    given = settled(options, argv, length=16, processes=[1, 2], head=["softmax"], vocabulary=[300])
    given.vocabulary, given.head = given.vocabulary or [32_000, 128_000], given.head or HEADS
    if "RANK" in os.environ:
        _measure(given)
        return
    found = {count: _started(count, given) for count in given.processes}
    rows = [
        {**case, "length": given.length, "processes": count, **one, **surroundings()}
        for count, cases in found.items()
        for case, one in cases
    ]
    for row in rows:
        shown = ("vocabulary", "head", "processes", "weight_mib", "peak_mib")
        print("  ".join(f"{name} {row[name]}" for name in shown))
    append(given.out, rows)


def _started(count: int, given: argparse.Namespace) -> list[list[dict[str, Any]]]:
    """What so many processes have measured: cases, and what was found of each."""
    words = [f"--length={given.length}"]
    words += [f"--{name}={one}" for name in LISTS for one in getattr(given, name)]
    return list(launched(__file__, count, words))


def _measure(given: argparse.Namespace) -> None:
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    cases = [{"vocabulary": size, "head": head} for size in given.vocabulary for head in given.head]
    found = [[case, _of_head(given, **case)] for case in cases]
    if processes.is_main():
        given.out.write_text(json.dumps(found), encoding="utf-8")
    distributed.destroy_process_group()


def _of_head(given: argparse.Namespace, vocabulary: int, head: str) -> dict[str, float]:
    """The most of all processes."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4}
    model: Any = attached(LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **sizes)), head).train()
    model.get_input_embeddings().requires_grad_(False)
    if processes.count() > 1:
        share_vocabulary(model)
    ids = repeating(vocabulary, 1, given.length)

    def step() -> None:
        model(input_ids=ids, labels=ids, return_logits=False).loss.backward()
        model.zero_grad(set_to_none=True)

    step()
    peak = peak_bytes(step)
    rows = held_here(model.get_output_embeddings().weight.detach())
    held = rows.numel() * rows.element_size()
    most = torch.tensor([held / 2**20, peak / 2**20], dtype=torch.float64)
    distributed.all_reduce(most, distributed.ReduceOp.MAX)
    return dict(zip(("weight_mib", "peak_mib"), (round(number, 2) for number in most.tolist()), strict=True))


if __name__ == "__main__":
    main()
