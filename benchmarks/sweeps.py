"""How time and memory of a training step grow with the vocabulary and with the length of the text.

A backbone of three layers (D = 768; ``+mi`` reads three), so that what the head does shows. Rows are appended to
``benchmarks/data/sweeps.csv``; ``python benchmarks/performance_page.py`` draws them.

    python benchmarks/sweeps.py vocabulary      # 32k, 128k and 256k words, batch 2 x 200
    python benchmarks/sweeps.py length          # 512 to 8,192 tokens of one text, 32k words
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from options import method, parser, settled
from rows import append, surroundings
from training_step import Suite, measured

HEADS = ("softmax", "cache", "softmax+cpr:20,100+mi", "mos:3", "f2")
VOCABULARIES = (32_768, 131_072, 262_144)
LENGTHS = (512, 2048, 8192)


def points(sweep: str, quick: bool) -> list[tuple[int, int, int]]:
    """Vocabulary, batch and length of each point."""
    if sweep == "vocabulary":
        return [(size, 2, 32 if quick else 200) for size in ((300, 600) if quick else VOCABULARIES)]
    return [(300 if quick else 32_768, 1, length) for length in ((16, 32) if quick else LENGTHS)]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "sweeps", rounds=3)
    options.add_argument("sweep", choices=["vocabulary", "length"])
    options.add_argument("--head", action="append", type=method, help="several may be given (default: of each kind)")
    given = settled(options, argv)
    seen = surroundings()
    size = "toy" if given.quick else "three-layers"
    for vocabulary, batch, length in points(given.sweep, given.quick):
        suite = Suite(size, tuple(given.head or HEADS), batch, length, vocabulary=vocabulary)
        where: dict[str, Any] = {
            "sweep": given.sweep, "size": size, "vocabulary": vocabulary, "batch": batch, "length": length,
            "device": given.device, "dtype": given.dtype,
        }  # fmt: skip
        rows = [where | row | seen for row in measured(suite, given.device, given.dtype, given.rounds)]
        for row in rows:
            print(
                f"V = {vocabulary:>7,} T = {length:>5,}  {row['model']:46} {row['ms']:>8} ms {row['time_ratio']:>6} x  "
                f"peak {row['peak_mb']:>8} MB {row['peak_ratio']:>6} x",
                flush=True,
            )
        append(given.out, rows)


if __name__ == "__main__":
    main()
