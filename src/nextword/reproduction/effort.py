"""What a table takes at small scale, in a word or two."""

from __future__ import annotations

from nextword.reproduction.experiment import find_experiment
from nextword.reproduction.paper import Table

WITHOUT_TRAINING = {"settings": "no training", "human": "people's judgements"}
"""Kinds of tables for which nothing is trained."""


def effort(table: Table) -> str:
    """Minutes that were measured on two cores; "trained" where they were not; or why there are none."""
    if table.kind in WITHOUT_TRAINING:
        return WITHOUT_TRAINING[table.kind]
    small = [one for name in table.experiments if (one := find_experiment(name).small) is not None]
    if not small:
        return "scale paper only" if table.experiments else "a drawing"
    minutes = [(one.minutes or 0) + (one.start_minutes or 0) for one in small]
    return f"about {sum(minutes):.0f} min" if all(minutes) else "trained"
