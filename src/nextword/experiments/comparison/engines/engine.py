"""The base class of engines, which schedule the runs of a comparison."""

from __future__ import annotations

import gc
import traceback
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.grid_search import is_searched, searched, settled
from nextword.experiments.comparison.one_run import Run, Setting, carry_out
from nextword.experiments.training.loss_curve import DivergedError
from nextword.results.records import FailedRun, RunRecord, full_disk, write_atomically
from nextword.settings.registry import Registry
from nextword.settings.setting_names import named

Outcome = RunRecord | FailedRun
"""The result of a run: its record, or the reason of its failure."""


@dataclass(frozen=True)
class Resources:
    """CPU cores and GPUs of each run; None: the engine's default. If ``gpus`` is below 1, several runs share a GPU."""

    cpus: int | None = None
    gpus: float | None = None


class Engine(ABC):
    """Base class of engines, which carry out the runs of a comparison, in any order and on any machine."""

    def __init__(self, resources: Resources | None = None) -> None:
        self.resources = resources or Resources()

    @abstractmethod
    def expect(self, config: CompareConfig) -> None:
        """Check, before any training, that the engine can carry out the runs of this comparison.

        Raises:
            ValueError: If the engine cannot carry them out. The message gives the reason.
        """

    @abstractmethod
    def outcomes(self, runs: Sequence[Run], setting: Setting) -> Generator[tuple[Run, Outcome], None, None]:
        """Carry out each run once, and yield the run with its outcome as soon as it has finished or failed.

        The watcher ``setting.stages`` receives each run's progress. After the generator is closed, no run continues.

        Raises:
            OSError: For an error that would affect every run, such as a full disk.
        """


registry = Registry[type[Engine]]("engine", Engine, also="nextword.experiments.comparison.engines")


# -- One run after another in this process, which is the default.


@registry.register("sequential")
class Sequential(Engine):
    """Engine that runs one run after another, each with the whole machine."""

    def expect(self, config: CompareConfig) -> None:
        """Raise ValueError if resources are given, because only another engine can use them."""
        if self.resources != Resources():
            raise ValueError(
                f"{named('cpus')}, {named('gpus')}: must be given together with {named('engine', 'ray')}, because "
                "otherwise each run uses the whole machine"
            )

    def outcomes(self, runs: Sequence[Run], setting: Setting) -> Generator[tuple[Run, Outcome], None, None]:
        """Carry out the runs in the order of ``runs``."""
        for run in runs:
            yield run, attempted(run, setting)


# -- A run that may fail.


def attempted(run: Run, setting: Setting) -> Outcome:
    """Carry out ``run``, after the grid search of its method. If the run fails, return a record of the failure.

    Raises:
        OSError: For an error that would also make every other run fail.
    """
    try:
        return carry_out(searched(run, setting), setting)
    except Exception as problem:
        return failed(run, setting, problem)


# -- The record of a failed run, which gives the reason. The other runs continue.

LONGEST_REASON = 300
"""Maximum number of characters of an error in a record. The file with the traceback has the whole error."""


def failed(run: Run, setting: Setting, problem: Exception) -> FailedRun:
    """Record that ``run`` failed with ``problem``.

    A diverged training is deleted, so that the next attempt does not resume from useless weights. After other errors
    the training keeps its checkpoints. If ``problem`` is an OSError or comes from a full disk, it is raised, because it
    would also make every other run fail.
    """
    if isinstance(problem, OSError) or full_disk(problem) is not None:
        raise problem
    folder = setting.folder
    run = Run(settled(run.method, folder), run.seed)
    method = run.method
    if isinstance(problem, DivergedError):
        for stage in folder.stages(method, run.seed):
            if folder.trained_outcome(stage) is None:
                folder.drop_model(stage)
    file = None if isinstance(problem, ValueError) else folder.run(method, run.seed) / "failure.txt"
    if file is not None:
        write_atomically(file, "".join(traceback.format_exception(problem)))
    _release(problem)
    return FailedRun(
        **run.recorded(),
        reason=_reason(problem),
        traceback=folder.relative(file) if file is not None else None,
    )


def _reason(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    text = text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
    return text if isinstance(problem, ValueError) and text else f"{type(problem).__name__}: {text}".removesuffix(": ")


def _release(problem: BaseException) -> None:
    # frees the memory of the failed run: the frames of the traceback keep its model alive
    one: BaseException | None = problem
    while one is not None:
        traceback.clear_frames(one.__traceback__)
        one = one.__cause__ or one.__context__
    gc.collect()
    torch.cuda.empty_cache()


# -- Which runs may run at the same time: runs that do not need the same unfinished training.
#
# Methods may share a training. ``cache (trained as softmax)`` is measured on the model of ``softmax``, and a second
# stage continues the training of a first stage. All seeds of a method share its search.


@dataclass(frozen=True)
class Needs:
    """Trainings and searches that a run needs, and that other runs may need too."""

    places: frozenset[Path]
    """Folders of the run's trainings, including those of an unfinished search, and the search's file."""
    searching: bool
    """Whether the search of the method is unfinished. A search deletes trainings whose settings it rejects."""


def needs(run: Run, config: CompareConfig, folder: ComparisonFolder) -> Needs:
    """The trainings and searches that ``run`` needs, given the searches that have finished in ``folder``."""
    method = run.method
    if is_searched(method, folder):
        return Needs(frozenset(folder.stages(settled(method, folder), run.seed)), searching=False)
    seeds = {run.seed, config.seeds[0] if method.search_seed is None else method.search_seed}
    stages = {stage for one in method.candidates for seed in seeds for stage in folder.stages(one, seed)}
    return Needs(frozenset(stages | {folder.search(method)}), searching=True)


def startable(waiting: Sequence[Run], running: Iterable[Run], setting: Setting) -> list[Run]:
    """The runs in ``waiting`` that may start now.

    A run may not start if a running run, or a run before it in ``waiting``, needs the same unfinished training. If the
    grid search of one of these two runs is unfinished, a finished training that both need also prevents the start.
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
