"""The options that all speed benchmarks share."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

DATA = Path(__file__).parent / "data"
QUICK = Path(__file__).parents[1] / "runs" / "bench"


def parser(about: str | None, name: str, rounds: int = 7) -> argparse.ArgumentParser:
    """A parser with rounds, device, dtype, and where rows go."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=rounds, help="rounds of taking turns, after one to warm up")
    made.add_argument("--device", default="cpu", help="cpu or cuda")
    made.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="of weights and activations")
    made.add_argument("--quick", action="store_true", help="toy sizes, one round; shows that it runs, not how fast")
    made.add_argument("--out", type=Path, help=f"table to append rows to (default: benchmarks/data/{name}.csv)")
    made.set_defaults(table=name)
    return made


def settled(given: argparse.Namespace) -> argparse.Namespace:
    """With what ``--quick`` means, whose rows go to a table of their own; stops before anything is measured in vain."""
    if given.quick:
        given.rounds = 1
        print("toy sizes and one round: this shows that everything runs, and no ratio below means anything")
    if given.rounds < 1:
        sys.exit(f"--rounds {given.rounds}: at least one is needed")
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(f"--device {given.device}: no such device here")
    if given.out is None:
        given.out = (QUICK if given.quick else DATA) / f"{given.table}.csv"
    try:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.open("a", encoding="utf-8").close()
    except OSError as error:
        sys.exit(f"--out {given.out}: {error.strerror}")
    return given
