"""Measures how time and memory of a training step grow with vocabulary size and text length.

The backbone has three layers, so that the cost of the head is visible. For the vocabulary, D is 768; for the length, D
is 256 and every head, and every objective that reads a whole text, is compared with plain softmax. Heads that read a
source (``+e``) are left out, because their cost depends on the length of the source. Rows are appended to
``benchmarks/data/sweeps.csv``; ``python benchmarks/performance_page.py`` draws them, with the exponent of growth.

    python benchmarks/sweeps.py vocabulary          # 32k, 128k and 256k words, batch 2 x 200
    python benchmarks/sweeps.py length --rounds 1   # 512 to 8,192 tokens of one text, 8k words: a quarter of an hour
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from options import method, parser, settled
from rows import append, surroundings
from training_step import Suite, measured

HEADS = {
    "vocabulary": ("softmax", "cache", "softmax+cpr:20,100+mi", "mos:3", "f2"),
    "length": (
        "softmax", "softmax/unlikelihood", "softmax/face:opr", "softmax+mi", "sigsoftmax", "mos:3", "f2",
        "softmax+c", "softmax+p", "softmax+r:20", "softmax+cpr:20,100+mi",
        "cache", "cache/histalign", "cache/histalign:paper", "cache/histalign:released", "copynet", "ps", "pg",
    ),
}  # fmt: skip
VOCABULARIES = (32_768, 131_072, 262_144)
LENGTHS = (512, 2048, 8192)


def points(sweep: str, quick: bool) -> list[Suite]:
    """What is measured, point by point."""
    if sweep == "vocabulary":
        size, sizes, length = ("toy", (300, 600), 32) if quick else ("three-layers", VOCABULARIES, 200)
        return [Suite(size, HEADS[sweep], 2, length, vocabulary=words) for words in sizes]
    size, words, lengths = ("toy", 300, (16, 32)) if quick else ("narrow", 8192, LENGTHS)
    return [Suite(size, HEADS[sweep], 1, length, baseline="softmax", vocabulary=words) for length in lengths]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "sweeps", rounds=3)
    options.add_argument("sweep", choices=["vocabulary", "length"])
    options.add_argument(
        "--head", action="append", type=method, help="head to measure; may be repeated (default: one of each kind)"
    )
    given = settled(options, argv)
    seen = surroundings()
    for suite in points(given.sweep, given.quick):
        if given.head:
            methods = dict.fromkeys([*([suite.baseline] if suite.baseline else []), *given.head])
            suite = dataclasses.replace(suite, methods=tuple(methods))
        where: dict[str, Any] = {
            "sweep": given.sweep, "size": suite.size, "vocabulary": suite.vocabulary, "batch": suite.batch,
            "length": suite.length, "device": given.device, "dtype": given.dtype,
        }  # fmt: skip
        rows = [where | row | seen for row in measured(suite, given.device, given.dtype, given.rounds)]
        for row in rows:
            print(
                f"V = {suite.vocabulary:>7,} T = {suite.length:>5,}  {row['model']:46} {row['ms']:>8} ms "
                f"{row['time_ratio']:>6} x  peak {row['peak_mb']:>8} MB {row['peak_ratio']:>6} x",
                flush=True,
            )
        append(given.out, rows)


if __name__ == "__main__":
    main()
