"""Seconds and memory of ``nw.check`` on a GPT-2 of the small size, against one forward pass; prints Markdown.

Each is measured in a process of its own, as the most memory that the process ever had: interpreter, torch and weights
are in it. The forward pass reads the largest batch that the audit reads.

    python benchmarks/audit_cost.py --runs 3
    python benchmarks/audit_cost.py --runs 1 --efforts thorough
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import torch
from options import at_least
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.checking.checker import FEWER_LENGTHS, LENGTHS

LONGEST = {"quick": max(FEWER_LENGTHS), "thorough": max(LENGTHS["thorough"])}
"""Tokens of the longest texts that an audit reads; three of them in a batch."""


def measured(what: str, effort: str, threads: int) -> dict[str, float]:
    """Seconds of a forward pass or an audit, and MiB of this process at most."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    start = time.perf_counter()
    if what == "forward":
        with torch.no_grad():
            model(torch.randint(50257, (3, LONGEST[effort]))).logits.log_softmax(-1)
    else:
        nw.check(model, effort=effort).raise_if_failed()  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def apart(what: str, effort: str, threads: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--measure", what, "--efforts", effort, "--threads", str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a row for each run."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=at_least(1), default=3, help="of each (%(default)s)")
    options.add_argument("--efforts", nargs="+", choices=sorted(LONGEST), default=["quick"], help="(%(default)s)")
    options.add_argument("--threads", type=at_least(1), default=2, help="of torch (%(default)s)")
    options.add_argument("--measure", choices=("forward", "check"), help="measure once, here, and print JSON")
    given = options.parse_args(argv)
    if given.measure:
        print(json.dumps(measured(given.measure, given.efforts[0], given.threads)))
        return
    print("| effort | audit, s | audit, MiB | forward pass, s | forward pass, MiB | memory | ")
    print("| --- | --- | --- | --- | --- | --- |")
    for effort in given.efforts:
        for _ in range(given.runs):
            audit, forward = apart("check", effort, given.threads), apart("forward", effort, given.threads)
            numbers = f"{audit['seconds']:.1f} | {audit['MiB']:,.0f} | {forward['seconds']:.2f} | {forward['MiB']:,.0f}"
            print(f"| {effort} | {numbers} | x {audit['MiB'] / forward['MiB']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
