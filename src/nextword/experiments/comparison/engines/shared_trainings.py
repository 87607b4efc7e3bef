"""Which runs may be at work at the same time: those that do not need the same training while it is made.

Methods may share a training: ``cache (trained as softmax)`` is measured on the model of ``softmax``, and a second stage
goes on from a first. All seeds of a method share its search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.experiments.comparison.search.grid_search import is_searched, settled


@dataclass(frozen=True)
class Needs:
    """What a run reads and writes that other runs may need too.

    Attributes:
        places: Folders of its trainings; of all that its search may try until that is done, and the search's file.
        searching: Whether its search is not done. It deletes trainings that lost.
    """

    places: frozenset[Path]
    searching: bool


def needs(run: Run, config: CompareConfig, folder: ComparisonFolder) -> Needs:
    """What a run needs as things are now."""
    method = run.method
    if is_searched(method, folder):
        return Needs(frozenset(folder.stages(settled(method, folder), run.seed)), searching=False)
    seeds = {run.seed, config.seeds[0] if method.search_seed is None else method.search_seed}
    stages = {stage for one in method.candidates for seed in seeds for stage in folder.stages(one, seed)}
    return Needs(frozenset(stages | {folder.search(method)}), searching=True)


def startable(waiting: Sequence[Run], running: Iterable[Run], setting: Setting) -> list[Run]:
    """The waiting runs that may begin now.

    A run waits for those at work, and for those that wait before it, as long as they share a training that is not
    finished, or a search.

    Args:
        waiting: Runs that have not begun, in their order.
        running: Runs at work.
        setting: Of all of them.
    """
    before = [needs(run, setting.config, setting.folder) for run in running]
    free = []
    for run in waiting:
        own = needs(run, setting.config, setting.folder)
        if not any(_clash(own, other, setting.folder) for other in before):
            free.append(run)
        before.append(own)
    return free


def _clash(one: Needs, other: Needs, folder: ComparisonFolder) -> bool:
    shared = one.places & other.places
    if one.searching or other.searching:
        return bool(shared)
    return any(folder.trained_outcome(stage) is None for stage in shared)
