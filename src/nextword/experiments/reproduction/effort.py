"""What a table takes at small scale, in a word or two."""

from __future__ import annotations

from dataclasses import dataclass

from nextword.experiments.reproduction.experiment import find_experiment
from nextword.experiments.reproduction.paper import Table

WITHOUT_TRAINING = {"settings": "no training", "human": "people's judgements"}
"""Kinds of tables for which nothing is trained."""


@dataclass(frozen=True)
class Minutes:
    """Of one thread, as experiments.toml has them.

    Attributes:
        runs: Training, measuring and writing.
        starts: Making the starts, each once, also where several experiments share it.
    """

    runs: float
    starts: float


def minutes_of(table: Table) -> Minutes | None:
    """What a table's experiments take at small scale; ``None``: not measured for one of them, or there are none."""
    small = {name: one for name in table.experiments if (one := find_experiment(name).small) is not None}
    if not small or any(one.minutes is None for one in small.values()):
        return None
    starts = {one.start or name for name, one in small.items()}
    made = [one.start_minutes for name in starts if (one := find_experiment(name).small) is not None]
    return Minutes(sum(one.minutes or 0 for one in small.values()), sum(one or 0 for one in made))


def effort(table: Table) -> str:
    """Minutes of one thread, one run after another; "trained" where they were not measured; or why there are none."""
    if table.kind in WITHOUT_TRAINING:
        return WITHOUT_TRAINING[table.kind]
    minutes = minutes_of(table)
    if minutes is not None:
        return f"about {minutes.runs + minutes.starts:.0f} min"
    if not table.experiments:
        return "a drawing"
    done_here = any(find_experiment(name).small is not None for name in table.experiments)
    return "trained" if done_here else "scale paper only"
