"""Measures time and memory of ``nw.check`` on a model of GPT-2 small's size, relative to one forward pass.

Each run is a process of its own. The forward pass processes the largest batch of the check and computes
log-probabilities at all its positions. Memory is measured twice: the peak of the whole process, including interpreter,
torch and weights, and the peak of torch's allocator above the loaded model. Rows are appended to
``benchmarks/data/audit_cost.csv``.

    python benchmarks/audit_cost.py
    python benchmarks/audit_cost.py --efforts thorough --rounds 1
    python benchmarks/audit_cost.py --quick    # a tiny model
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from options import at_least, parser, settled
from peak_memory import peak_bytes
from rows import append, surroundings
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.checking.checker import FEWER_LENGTHS, LENGTHS
from nextword.checking.invariance_properties import EXTRA

Effort = Literal["quick", "thorough"]

LONGEST: dict[Effort, int] = {"quick": max(FEWER_LENGTHS) + EXTRA, "thorough": max(LENGTHS["thorough"]) + EXTRA}
"""Places of the longest texts that an audit reads, padding with them; three of them in a batch."""

TEXTS = 3

SIZES: dict[str, dict[str, int]] = {
    "gpt2-small": {},
    "toy": {"vocab_size": 300, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0},
}
"""Settings that differ from GPT-2's own."""


def measured(what: str, effort: Effort, size: str, threads: int) -> dict[str, float]:
    """Seconds of a forward pass or an audit, and megabytes: of the process, and above the loaded model."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = GPT2LMHeadModel(GPT2Config(**SIZES[size])).eval()
    run = _forward(model, effort) if what == "forward" else _audit(model, effort)
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # before the profiler takes some for itself
    return {"s": seconds, "mb": process / 1e6, "above_mb": peak_bytes(run) / 1e6}


def _forward(model: Any, effort: Effort) -> Callable[[], object]:
    ids = torch.randint(model.config.vocab_size, (TEXTS, LONGEST[effort]))

    def run() -> None:
        with torch.no_grad():
            model(ids).logits.log_softmax(-1)

    return run


def _audit(model: Any, effort: Effort) -> Callable[[], object]:
    return lambda: nw.check(model, effort=effort).raise_if_failed()


def apart(*arguments: Any) -> dict[str, float]:
    """The same in a process of its own, so that its memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: dict[str, float] = pool.apply(measured, arguments)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "audit_cost", rounds=3)
    options.add_argument("--efforts", nargs="+", choices=list(LONGEST), default=["quick"], help="(default: quick)")
    options.add_argument("--threads", type=at_least(1), default=torch.get_num_threads(), help="(default: %(default)s)")
    options.set_defaults(size="gpt2-small")
    given = settled(options, argv, size="toy")
    torch.set_num_threads(given.threads)  # what the row says
    rows = [_row(effort, given) for effort in given.efforts]
    for row in rows:
        print(
            f"{row['effort']}: {row['s']} s ({row['s_lowest']} to {row['s_highest']}); process {row['mb']} MB, "
            f"{row['ratio']} x; above the model {row['above_mb']} MB, {row['above_ratio']} x"
        )
    append(given.out, rows)


def _row(effort: Effort, given: Any) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {"check": [], "forward": []}
    for _ in range(given.rounds):
        for what, runs in found.items():
            runs.append(apart(what, effort, given.size, given.threads))

    def most(what: str, column: str) -> float:
        return max(run[column] for run in found[what])

    seconds = [run["s"] for run in found["check"]]
    return {
        "size": given.size,
        "effort": effort,
        "batch": TEXTS,
        "length": LONGEST[effort],
        "s": f"{statistics.median(seconds):.1f}",
        "s_lowest": f"{min(seconds):.1f}",
        "s_highest": f"{max(seconds):.1f}",
        "forward_s": f"{statistics.median(run['s'] for run in found['forward']):.3f}",
        "mb": f"{most('check', 'mb'):.1f}",
        "forward_mb": f"{most('forward', 'mb'):.1f}",
        "ratio": f"{most('check', 'mb') / most('forward', 'mb'):.3f}",
        "above_mb": f"{most('check', 'above_mb'):.2f}",
        "forward_above_mb": f"{most('forward', 'above_mb'):.2f}",
        "above_ratio": f"{most('check', 'above_mb') / most('forward', 'above_mb'):.3f}",
        "rounds": given.rounds,
        **surroundings(),
    }


if __name__ == "__main__":
    main()
