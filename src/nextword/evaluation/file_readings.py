"""All samples files, read one after another or by several processes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nextword.evaluation.evaluation_settings import EvaluateConfig
from nextword.evaluation.metrics.metric import MetricConfig, Setup
from nextword.evaluation.sample_passes import Reading, Watch, read_file


@dataclass(frozen=True)
class FilesToRead:
    """How files are read and measured.

    Attributes:
        metrics: What is measured.
        setup: What metrics are given, for every file.
        config: How files are read.
    """

    metrics: tuple[MetricConfig, ...]
    setup: Setup
    config: EvaluateConfig

    def setup_of(self, path: Path) -> Setup:
        """The same with the folder in which features of this file are kept."""
        beside = path.with_name(path.name + ".features")
        features = self.config.features
        return replace(self.setup, cache=beside if features is None else Path(features).expanduser())


def read_files(paths: Sequence[tuple[str, Path]], files: FilesToRead, watch: Watch) -> Iterator[Reading]:
    """What is read of each file, in order; the references of the first only, for they are the same for all.

    Args:
        paths: Name and place of each.
        files: How they are read.
        watch: Told how far it is.
    """
    if files.config.processes is None:
        for number, (name, path) in enumerate(paths):
            told = partial(_tell, watch, name)
            setup = replace(files.setup_of(path), progress=told)
            yield read_file(path, files.metrics, setup, files.config, files.config.human and not number, told)
        return
    from nextword.runtime.workers import workers  # imports torch, which other evaluations may do without

    tasks = (_Measure(path, files.config.human and not number) for number, (_, path) in enumerate(paths))
    at_work = workers(partial(_as_given, files), min(files.config.processes, len(paths)))
    for done, reading in enumerate(at_work.answers(tasks), 1):
        watch("files", done, len(paths))
        yield reading


@dataclass(frozen=True)
class _Measure:
    """Reads one file in a process of its own, and measures it there."""

    path: Path
    human: bool

    def __call__(self, opened: FilesToRead) -> Reading:
        """As the files are read that it is one of."""
        setup = opened.setup_of(self.path)
        return read_file(self.path, opened.metrics, setup, opened.config, self.human, setup.progress).measured()


def _as_given(files: FilesToRead) -> FilesToRead:
    return files


def _tell(watch: Watch, name: str, what: str, done: int, total: int) -> None:
    watch(f"{name}: {what}", done, total)
