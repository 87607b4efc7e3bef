"""Measures start-up time: imports and ``--help``, each in a process of its own.

Rounds are interleaved, and the fastest round counts, because background load only adds time. Rows have seconds and
processor seconds; targets refer to processor seconds. ``import torch, transformers`` loads little of transformers,
which imports classes on first use, so our import is also compared with importing the classes that every language model
needs. Rows are appended to ``benchmarks/data/startup.csv``.

    python benchmarks/startup.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence

from options import parser, settled
from rows import append, surroundings

_LIBRARIES = "import torch, transformers"
_CLASSES = f"{_LIBRARIES}; from transformers import AutoModelForCausalLM, GenerationMixin, PreTrainedModel"
COMMANDS: dict[str, list[str]] = {
    "python, nothing imported": ["-c", "pass"],
    "torch and transformers": ["-c", _LIBRARIES],
    "torch and transformers with their model classes": ["-c", _CLASSES],
    "torch, transformers and nextword": ["-c", f"{_LIBRARIES}, nextword; nextword.attach"],
    "torch, transformers, their model classes and nextword": ["-c", f"{_CLASSES}; import nextword; nextword.attach"],
    "nextword alone, no name touched": ["-c", "import nextword"],
    "nextword --help": ["-m", "nextword", "--help"],
    "nextword compare --help": ["-m", "nextword", "compare", "--help"],
    "nextword train --help": ["-m", "nextword", "train", "--help"],
    "nextword traain, which there is not": ["-m", "nextword", "traain"],
    "nextword compare quickstrat, which there is not": ["-m", "nextword", "compare", "quickstrat"],
    "nextword list heads": ["-m", "nextword", "list", "heads"],
}
"""Arguments of Python by what they start."""

WRONG = 2
"""Exit code of a command that there is not."""

ABOVE = {
    "nextword, above torch and transformers": ("torch, transformers and nextword", "torch and transformers"),
    "nextword, above torch and transformers with their model classes": (
        "torch, transformers, their model classes and nextword",
        "torch and transformers with their model classes",
    ),
}
"""Differences that are of interest."""


def started(arguments: list[str]) -> tuple[float, float]:
    """Seconds of one process from its start to its end, and of the processor for it.

    Raises:
        RuntimeError: It failed.
    """
    command, before, began = [sys.executable, *arguments], _processor_seconds(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - began, _processor_seconds() - before
    if done.returncode not in (0, WRONG):
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return taken


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    given = settled(parser(__doc__, "startup"), argv)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(given.rounds + 1):  # the first reads what the disk has
        for name, arguments in COMMANDS.items():
            taken[name].append(started(arguments))
    found = {name: tuple(min(kind) for kind in zip(*rounds[1:], strict=True)) for name, rounds in taken.items()}
    for name, (whole, base) in ABOVE.items():
        found[name] = tuple(a - b for a, b in zip(found[whole], found[base], strict=True))
    rows = [
        {"name": name, "seconds": f"{seconds:.3f}", "processor_seconds": f"{used:.3f}", "rounds": given.rounds}
        for name, (seconds, used) in found.items()
    ]
    for row in rows:
        print(f"{row['name']:66} {row['seconds']:>7} s {row['processor_seconds']:>7} s of processor time", flush=True)
    append(given.out, [{**row, **surroundings()} for row in rows])


if __name__ == "__main__":
    main()
