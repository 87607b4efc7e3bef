"""The options that all speed benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path

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
    """With what ``--quick`` means, whose rows go to a table of their own."""
    if given.quick:
        given.rounds = 1
    if given.out is None:
        given.out = (QUICK if given.quick else DATA) / f"{given.table}.csv"
    return given
