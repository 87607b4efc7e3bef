"""The contract of an engine: what carries out the runs of a comparison."""

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
"""What became of a run."""


@dataclass(frozen=True)
class Resources:
    """Cores and GPUs that each run takes, where a fraction lets runs share one; None leaves it to the engine."""

    cpus: int | None = None
    gpus: float | None = None


class Engine(ABC):
    """Carries out runs, in which order and where it likes."""

    def __init__(self, resources: Resources | None = None) -> None:
        self.resources = resources or Resources()

    @abstractmethod
    def expect(self, config: CompareConfig) -> None:
        """Expects that runs of this comparison can be carried out; called before anything is trained.

        Raises:
            ValueError: They cannot; says why.
        """

    @abstractmethod
    def outcomes(self, runs: Sequence[Run], setting: Setting) -> Generator[tuple[Run, Outcome], None, None]:
        """Carries out each run once and yields it as soon as it is done, well or badly.

        Until then ``setting.stages.progress`` receives its stages. When the generator is closed, no run is at work
        any more.

        Raises:
            OSError: What would meet every run, such as a full disk.
        """


registry = Registry[type[Engine]]("engine", Engine, also="nextword.experiments.comparison.engines")


# -- One run after another in this process: what a comparison does where no other engine is asked for.


@registry.register("sequential")
class Sequential(Engine):
    """Every run has the whole machine."""

    def expect(self, config: CompareConfig) -> None:
        """Nothing to share out."""
        if self.resources != Resources():
            raise ValueError(
                f"{named('cpus')}, {named('gpus')}: must stand with {named('engine', 'ray')}; without it each run has "
                "the whole machine"
            )

    def outcomes(self, runs: Sequence[Run], setting: Setting) -> Generator[tuple[Run, Outcome], None, None]:
        """In their order."""
        for run in runs:
            yield run, attempted(run, setting)


# -- One run that may fail.


def attempted(run: Run, setting: Setting) -> Outcome:
    """Carries out a run after the search of its method; the record of why it failed, where it did.

    Raises:
        OSError: What would meet every other run too.
    """
    try:
        return carry_out(searched(run, setting), setting)
    except Exception as problem:
        return failed(run, setting, problem)


# -- What becomes of a run that fails: a record that says why, while the others continue.

LONGEST_REASON = 300
"""Characters of an error that a record shows; the file with the traceback has all of it."""


def failed(run: Run, setting: Setting, problem: Exception) -> FailedRun:
    """The record of a run that ended with ``problem``, with what its search has chosen.

    What diverged is deleted, so that the next attempt does not continue from weights that are as good as lost. Any
    other training keeps its checkpoints.

    Raises:
        OSError: ``problem`` is one, or a full disk: it would meet every other run too.
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
    # what the run held: its model is alive as long as the frames of the traceback are
    one: BaseException | None = problem
    while one is not None:
        traceback.clear_frames(one.__traceback__)
        one = one.__cause__ or one.__context__
    gc.collect()
    torch.cuda.empty_cache()


# -- Which runs may be at work at the same time: those that do not need the same training while it is made.
#
# Methods may share a training: ``cache (trained as softmax)`` is measured on the model of ``softmax``, and a second
# stage resumes from a first. All seeds of a method share its search.


@dataclass(frozen=True)
class Needs:
    """What a run reads and writes that other runs may need too."""

    places: frozenset[Path]
    """Folders of its trainings; of all that its search may try until that is done, and the search's file."""
    searching: bool
    """Whether its search is not done. It deletes trainings that lost."""


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
