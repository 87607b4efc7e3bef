"""Measures the time of MefMax with its full curve over K, on synthetic counts of 30,000 tokens.

Every round is one call that sorts, divides and evaluates for all K. Rows are appended to
``benchmarks/data/mefmax_speed.csv``.

    python benchmarks/mefmax_speed.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
from rows import append

from nextword.functional.frequency import mefmax_curve
from nextword.results.records import Environment

TOTAL = 100_000_000


def made_up(tokens: int) -> dict[str, np.ndarray]:
    """Counts by name: as of text, and the worst case for the number of classes."""
    ranks = np.arange(1, tokens + 1)
    zipf, mandelbrot = 1 / ranks, 1 / (ranks + 5.0) ** 1.1
    return {
        "Zipf, s = 1": np.round(TOTAL * zipf / zipf.sum()).astype(np.int64),
        "Zipf-Mandelbrot, s = 1.1, q = 5": np.round(TOTAL * mandelbrot / mandelbrot.sum()).astype(np.int64),
        "uniform": np.full(tokens, 1000),
        "nearly uniform": 1000 + np.random.default_rng(0).integers(0, 5, tokens),
    }


def main() -> None:
    """Measures, prints and appends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "mefmax_speed.csv")
    given = parser.parse_args()
    environment = Environment.collect()
    rows = []
    for name, counts in made_up(given.tokens).items():
        seconds = []
        for _ in range(given.rounds):
            start = time.perf_counter()
            curve = mefmax_curve(counts)
            seconds.append(time.perf_counter() - start)
        rows.append(
            {
                "counts": name,
                "tokens": given.tokens,
                "tried": len(curve.ks),
                "chosen": curve.best,
                "ms": f"{1000 * statistics.median(seconds):.1f}",
                "ms_fastest": f"{1000 * min(seconds):.1f}",
                "rounds": given.rounds,
                "numpy": np.__version__,
                **environment.model_dump(mode="json", exclude={"python", "platform", "torch", "transformers"}),
            }
        )
        print(f"{name:35} K of 1..{rows[-1]['tried']:<4} -> {rows[-1]['chosen']:<3} {rows[-1]['ms']:>6} ms")
    append(given.out, rows)


if __name__ == "__main__":
    main()
