"""Profiles time and memory of a training step by operation.

Self time excludes operations called inside. Bytes are those that an operation allocated itself minus those that it
freed. One step, with gradients, is profiled after a warm-up step. Rows are appended to
``benchmarks/data/profile_step.csv``; ``python benchmarks/performance_page.py`` prints the newest.

    python benchmarks/profile_step.py                    # the baseline, softmax, cpr and mos at GPT-2 small's shape
    python benchmarks/profile_step.py --head pg --top 12
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from options import at_least, method, parser, settled
from rows import append, surroundings
from torch.profiler import ProfilerActivity, profile
from training_step import SUITES, Suite, steps_of

HEADS = ("softmax", "softmax+cpr:20,100+mi", "mos:3", "f2")


def profiled(run: Callable[[], object], device: str, top: int) -> list[dict[str, Any]]:
    """The operations that take most of the time, and the rest as one, with shares of all self time."""
    cuda = device.startswith("cuda")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    run()
    with profile(activities=activities, profile_memory=True) as profiler:
        run()
    kind = "device" if cuda else "cpu"
    found = [
        (event.key, event.count, getattr(event, f"self_{kind}_time_total"), getattr(event, f"self_{kind}_memory_usage"))
        for event in profiler.key_averages()
        if event.key != "[memory]"
    ]
    found.sort(key=lambda one: -one[2])
    total = sum(one[2] for one in found)
    rest = found[top:]
    kept = [*found[:top], (f"{len(rest)} others", *(sum(one[i] for one in rest) for i in (1, 2, 3)))]
    return [
        {
            "operation": name,
            "calls": calls,
            "self_ms": f"{microseconds / 1000:.2f}",
            "share": f"{microseconds / total:.4f}",
            "self_mb": f"{size / 1e6:.2f}",
        }
        for name, calls, microseconds, size in kept
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Profiles, prints and appends."""
    options = parser(__doc__, "profile_step", rounds=None)
    options.add_argument(
        "--head", action="append", type=method, help="head to profile; may be repeated (default: four kinds)"
    )
    options.add_argument("--top", type=at_least(1), default=10, help="number of operations to print")
    given = settled(options, argv)
    seen = surroundings()
    full = SUITES["gpt2-small"]
    size, length = ("toy", 32) if given.quick else (full.size, full.length)
    suite = Suite(size, tuple(given.head or HEADS), full.batch, length)
    steps, _ = steps_of(suite, given.device, given.dtype)
    for model, step in steps.items():
        where = {
            "size": size, "batch": suite.batch, "length": length, "device": given.device, "dtype": given.dtype,
            "model": model,
        }  # fmt: skip
        rows = [where | row | seen for row in profiled(step.run, given.device, given.top)]
        step.model.zero_grad(set_to_none=True)
        print(f"\n{model}")
        for row in rows:
            share = f"{float(row['share']):.1%}"
            print(
                f"  {row['operation']:56} {row['calls']:>6} x {row['self_ms']:>9} ms {share:>6} {row['self_mb']:>9} MB"
            )
        append(given.out, rows)


if __name__ == "__main__":
    main()
