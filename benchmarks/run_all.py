"""Runs every benchmark of ``docs/performance.md``, then writes its tables and figures.

Run nothing else on the machine meanwhile. ``--quick`` uses toy sizes, writes the rows to ``runs/bench`` and does not
change the page.

    python benchmarks/run_all.py              # what the page shows: about two hours
    python benchmarks/run_all.py --full       # the same, and decoding of 256 tokens after 512: many hours
    python benchmarks/run_all.py --quick      # a few minutes
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent

HISTORY = tuple(f"--head={head}" for head in ("softmax", "cache", "softmax+c", "copynet", "ps", "pg",
                                              "softmax+cpr:20,100+mi"))  # fmt: skip
"""Heads that read the text before."""

SHORT = (
    ("startup.py",),
    ("head_cost.py",),
    ("training_step.py",),
    ("training_step.py", "--suite", "gpt2-small", "--batch", "4", "--length", "512", "--rounds", "1"),
    ("profile_step.py",),
    ("decoding_speed.py", "--batch", "1", "--beams", "1", "--new", "24", "--memory"),
    ("decoding_speed.py", "--batch", "1", "--beams", "4", "--prompt", "128", "--new", "16", "--rounds", "3"),
    ("decoding_speed.py", "--batch", "8", "--beams", "1", "--prompt", "128", "--new", "16", "--rounds", "3"),
    ("decoding_speed.py", "--batch", "8", "--beams", "4", "--prompt", "128", "--new", "24", "--rounds", "1"),
    ("decoding_speed.py", "--size", "three-layers", "--batch", "1", "--beams", "1", "--prompt", "512", "2048", "4096",
     "--new", "32", "--rounds", "3", "--memory", *HISTORY),
    ("sweeps.py", "vocabulary"),
    ("sweeps.py", "length", "--rounds", "1"),
    ("throughput.py", "--rounds", "3"),
    ("audit_cost.py",),
    ("long_memory.py",),
)  # fmt: skip
"""Command lines; where texts are many or long, prompts are shorter or rounds fewer: they are most of the wait."""

FULL = (*SHORT, ("decoding_speed.py", "--new", "256", "--memory"))

QUICK = (
    ("startup.py",),
    ("head_cost.py",),
    ("training_step.py",),
    ("profile_step.py", "--head", "softmax"),
    ("decoding_speed.py",),
    ("sweeps.py", "vocabulary"),
    ("sweeps.py", "length"),
    ("throughput.py",),
    ("text_memory.py",),
    ("long_memory.py",),
    ("audit_cost.py",),
    ("datastore.py",),
)
"""With made-up text also those that need text, or a model, of yours: ``docs/performance.md`` has their commands."""


def main(argv: Sequence[str] | None = None) -> None:
    """Runs, and stops at the first that fails."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = options.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="use toy sizes and write the rows to runs/bench")
    kind.add_argument("--full", action="store_true", help="also measure decoding at full length")
    given = options.parse_args(argv)
    if given.quick:
        commands: tuple[tuple[str, ...], ...] = tuple((*command, "--quick") for command in QUICK)
    else:
        commands = (*(FULL if given.full else SHORT), ("performance_page.py",))
    for script, *arguments in commands:
        print(f"\n{script} {' '.join(arguments)}", flush=True)
        start = time.perf_counter()
        subprocess.run([sys.executable, str(HERE / script), *arguments], check=True)
        print(f"{script}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
