"""The plan of ``nextword reproduce``: all experiments of some tables, whether there is room, and what is wrong."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from nextword.experiments.reproduction.experiment_folder import ExperimentFolders
from nextword.experiments.reproduction.paper import find_table
from nextword.experiments.reproduction.planning.experiment_plan import Clock, ExperimentPlan, experiment_plan, timed
from nextword.experiments.reproduction.planning.memory import existing_folder
from nextword.experiments.reproduction.reproduce_tables import Request, needed_experiments
from nextword.settings.setting_names import named


@dataclass(frozen=True)
class Plan:
    """All experiments.

    Attributes:
        experiments: Each once, in the order in which they run.
        without: Tables for which nothing is run at this scale.
        speed: Where times come from.
        disk: Bytes that are still to be written.
        free: Bytes that there is room for.
        problems: What is wrong with no single experiment.
    """

    experiments: list[ExperimentPlan]
    without: list[str]
    speed: str
    disk: int
    free: int
    problems: list[str]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is known that would fail."""
        return not self.problems and not any(one.problems for one in self.experiments)


def plan(request: Request, clock: Clock) -> Plan:
    """Plans everything that a request asks for; writes nothing, and trains no more than the clock tries.

    Args:
        request: What is to be reproduced.
        clock: Who says what training steps take; asked when all is checked.

    Raises:
        ValueError: A change that fits no experiment's settings.
    """
    folders = ExperimentFolders(request.out, request.scale, request.data, request.changes)
    names = needed_experiments(request.tables, folders)
    experiments = [timed(one, clock) for one in [experiment_plan(name, request) for name in names]]
    needed = sum(max(0, (one.disk or 0) - _written(folders.folder(one.name))) for one in experiments)
    free = shutil.disk_usage(existing_folder(request.out)).free
    lack = (
        f"{request.out}: must have room for {needed / 1e9:.1f} GB of models ({free / 1e9:.1f} GB free); make room or "
        f"choose another {named('out')}"
    )
    return Plan(
        experiments=experiments,
        without=[table for table in request.tables if not set(find_table(table).experiments) & set(names)],
        speed=clock.told,
        disk=needed,
        free=free,
        problems=[lack] if needed > free else [],
    )


def _written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
