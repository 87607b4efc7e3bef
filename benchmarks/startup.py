"""How long one waits before anything happens: imports and the command line's help, each in a process of its own.

What is compared takes turns; a difference is the median over single rounds. ``import torch, transformers`` alone loads
little of transformers, which imports its classes when they are first touched, so the import of ours is also compared
with the classes that every user of a language model touches. Rows are appended to ``benchmarks/data/startup.csv``.

    python benchmarks/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from interleaved import interleaved, seconds_of
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
    "nextword list heads": ["-m", "nextword", "list", "heads"],
}
"""Arguments of Python by what they start."""

ABOVE = {
    "nextword, above torch and transformers": ("torch, transformers and nextword", "torch and transformers"),
    "nextword, above torch and transformers with their model classes": (
        "torch, transformers, their model classes and nextword",
        "torch and transformers with their model classes",
    ),
}
"""Differences that are of interest."""


def started(arguments: list[str]) -> float:
    """Seconds of one process from its start to its end.

    Raises:
        RuntimeError: It failed.
    """
    done: list[subprocess.CompletedProcess[str]] = []
    command = [sys.executable, *arguments]
    taken = seconds_of(lambda: done.append(subprocess.run(command, capture_output=True, text=True, check=False)))
    if done[0].returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done[0].stderr.strip()}")
    return taken


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    given = settled(parser(__doc__, "startup"), argv)
    seconds = interleaved({name: partial(started, arguments) for name, arguments in COMMANDS.items()}, given.rounds)
    found = {name: statistics.median(own) for name, own in seconds.items()}
    for name, (whole, base) in ABOVE.items():
        found[name] = statistics.median(a - b for a, b in zip(seconds[whole], seconds[base], strict=True))
    seen = surroundings()
    rows = [{"name": name, "seconds": f"{value:.3f}", "rounds": given.rounds, **seen} for name, value in found.items()]
    for row in rows:
        print(f"{row['name']:66} {row['seconds']:>7} s", flush=True)
    append(given.out, rows)


if __name__ == "__main__":
    main()
