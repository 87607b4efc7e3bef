"""The contract of an engine: what carries out the runs of a comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.results.records import FailedRun, RunRecord
from nextword.settings.registry import Registry

Outcome = RunRecord | FailedRun
"""What became of a run."""


@dataclass(frozen=True)
class Resources:
    """What each run takes of a machine; None leaves it to the engine.

    Attributes:
        cpus: Processor cores.
        gpus: GPUs; a fraction lets runs share one.
    """

    cpus: int | None = None
    gpus: float | None = None


class Engine(ABC):
    """Carries out runs, in which order and where it likes.

    Args:
        resources: What each run takes.
    """

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

        Until then ``setting.stages.progress`` is told of its stages. When the generator is closed, no run is at work
        any more.

        Raises:
            OSError: What would meet every run, such as a full disk.
        """


registry = Registry[type[Engine]]("engine", Engine, also="nextword.experiments.comparison.engines")
