"""Run an experiment as a resumable comparison in its own folder, and record its duration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.evaluation.metrics.metric import parse_metric
from nextword.experiments.comparison.all_methods import compare_methods, make_start
from nextword.experiments.comparison.comparison_settings import build_task, configured, read
from nextword.experiments.comparison.engines.engine import Engine
from nextword.experiments.reproduction.data_sets import DataFolder
from nextword.experiments.reproduction.experiment import (
    AtScale,
    Experiment,
    comparison_of,
    expected_experiment,
    find_experiment,
    recipe_of,
    settings_of,
)
from nextword.experiments.reproduction.paper import find_table
from nextword.experiments.reproduction.table_numbers import ExperimentResults
from nextword.results.records import Record, Results
from nextword.results.records.reproduced_table import RanExperiment, Scale
from nextword.runtime.progress import Watcher
from nextword.settings.config import validated

if TYPE_CHECKING:
    from nextword.experiments.comparison.comparison_settings import CompareConfig


START = "start"
"""Names of the stages in which a comparison makes its initial checkpoint."""


@dataclass(frozen=True)
class Request:
    """Request to reproduce tables: their names, scale, data and settings.

    Attributes:
        tables: Names of the tables, as PAPER/TABLE.
        scale: Scale of the experiments: small, pretrained or paper.
        data: Paths of the data sets.
        out: Folder for all results.
        changes: Overrides of every experiment: ``("seeds=[0]",)``.
        judges: Model-based metrics with the user's models: ``("factcc:model=FOLDER",)``.
        command: Command line, for the record.
        engine: Engine that schedules the runs; by default one after another in this process.
    """

    tables: Sequence[str]
    scale: Scale
    data: DataFolder
    out: Path
    changes: Sequence[str] = ()
    judges: Sequence[str] = ()
    command: str = "nextword.experiments.reproduction.reproduce(request)"
    engine: Engine | None = None

    def experiments_of(self, table: str) -> list[str]:
        """Names of the experiments that fill ``table`` at this scale."""
        return find_table(table).at(self.scale).experiments


class Times(Record):
    """Seconds that an experiment took so far, summed over all calls."""

    start: float = 0.0
    """Seconds for the initial checkpoint."""
    runs: float = 0.0
    """Seconds for training, evaluation and generation."""


class ExperimentFolders:
    """Runs the experiments of a request, each in its own folder."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def folder(self, name: str) -> Path:
        """Return the folder of the experiment ``name``, or of the experiment whose runs it uses."""
        return self._request.out / "experiments" / self._request.scale / (self._expected(name).runs_of or name)

    def at_scale(self, name: str) -> AtScale | None:
        """The experiment ``name`` at the request's scale; ``None`` if it is not done at this scale."""
        return find_experiment(name).at(self._request.scale)

    def config(self, name: str) -> CompareConfig:
        """Return the settings of the comparison that the experiment ``name`` makes for this request.

        Raises:
            ValueError: If the experiment is not done at this scale, data is missing, or an override is wrong.
        """
        one = self._expected(name)
        start = None if one.start is None else self.folder(one.start) / START / "model"
        changes = [*self._store(name, one), *self._request.changes]
        config = comparison_of(one, self._request.data, start, changes)
        return with_judges(config, find_experiment(name), self._request.judges)

    def _store(self, name: str, one: AtScale) -> list[str]:
        # a recipe's stored states lie with the experiment's other files
        is_stored = recipe_of(one).get("states") is not None
        return [f"states={json.dumps(str(self.folder(name) / 'states'))}"] if is_stored else []

    def doubts(self, name: str) -> list[str]:
        """One message for each data file of the experiment ``name`` that is so small that it may be incomplete."""
        return self._request.data.too_small(self._expected(name).data.values())

    def run(self, name: str, progress: Watcher) -> ExperimentResults:
        """Do the unfinished runs of the experiment ``name``, and return its results.

        If another experiment makes the initial checkpoint, this checkpoint is made first.

        Raises:
            ValueError: As for ``config`` and ``compare_methods``.
            ComparisonInterrupted: On Ctrl-C.
        """
        one, folder, command = self._expected(name), self.folder(name), self._request.command
        if one.start is not None:
            origin = self.folder(one.start)
            with self._saying_where_from(self._expected(one.start)):
                make_start(self.config(one.start), origin, _TimingWatcher(progress, origin), command)
        config = self.config(name)
        with self._saying_where_from(one):
            results = compare_methods(config, folder, _TimingWatcher(progress, folder), command, self._request.engine)
        return ExperimentResults(settings_of(config), results, self._record(name, one, results))

    @contextmanager
    def _saying_where_from(self, one: AtScale) -> Iterator[None]:
        """Add the source of the data to errors about broken data files."""
        try:
            yield
        except ValueError as problem:
            data, wanted = self._request.data, list(one.data.values())
            if not data.mentioned(str(problem), wanted):
                raise
            raise ValueError("\n".join(data.explained(str(problem), wanted))) from problem

    def settings(self, name: str) -> ExperimentResults:
        """The settings and data of the experiment ``name``, which is not run. The data is read when first used."""
        config = self.config(name)

        @cache
        def described() -> Mapping[str, Any]:
            data = build_task(config).data
            return {**data.describe(), **data.counts()}

        return ExperimentResults(settings_of(config), data=described)

    def _expected(self, name: str) -> AtScale:
        return expected_experiment(name, self._request.scale)

    def _start(self, one: AtScale, model: str) -> str:
        if one.start is not None:
            return f"that of {one.start}"
        wanted = one.data.get("start.model")  # it has the name of its data set, not a path of this machine
        return str(wanted) if wanted is not None and self._request.data.resolved(wanted) == model else model

    def _record(self, name: str, one: AtScale, results: Results) -> RanExperiment:
        times = _times(self.folder(name))
        origin = times if one.start is None else _times(self.folder(one.start))
        return RanExperiment(
            name=name,
            recipe=one.recipe,
            command=results.command,
            task=results.task,
            seeds=results.seeds,
            start=self._start(one, str(results.start.get("model", ""))),
            data=str(results.data.get("source", results.task)),
            minutes=round(times.runs / 60, 3),
            start_minutes=round(origin.start / 60, 3) if origin.start else None,
            report=f"experiments/{self._request.scale}/{self.folder(name).name}/report.html",
        )


class _TimingWatcher(Watcher):
    """Adds up the seconds of all stages of an experiment, in a file next to its folder."""

    def __init__(self, inner: Watcher, folder: Path) -> None:
        self._inner, self._folder = inner, folder
        # all else goes to the inner one alone
        passed_on = (inner.planned, inner.began, inner.advanced, inner.finished, inner.failed)
        vars(self).update({event.__name__: event for event in passed_on})

    def ended(self, name: str, stage: str, seconds: float) -> None:
        kind, times = START if name == START else "runs", _times(self._folder)
        times.model_copy(update={kind: getattr(times, kind) + seconds}).save(_times_file(self._folder))
        self._inner.ended(name, stage, seconds)


def _times_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.times.json")  # beside it: a comparison wants its folder to itself


def _times(folder: Path) -> Times:
    path = _times_file(folder)
    return Times.load(path) if path.exists() else Times()


# -- Judges that a user has: measured of the texts of every experiment whose recipe at the paper's scale asks for
# them.


def with_judges(config: CompareConfig, experiment: Experiment, judges: Sequence[str]) -> CompareConfig:
    """Return ``config`` with those metrics in ``judges`` that the paper-scale recipe of ``experiment`` also has.

    They replace metrics of the same name in ``config``.

    Raises:
        ValueError: If a metric or its setting is unknown.
    """
    named = [parse_metric(judge).metric for judge in judges]
    if not named or experiment.paper is None:
        return config
    paper = configured(read(experiment.paper.recipe), experiment.paper.overrides)
    of_the_paper = {parse_metric(one).metric for one in _metrics(paper)}
    wanted = [judge for judge, metric in zip(judges, named, strict=True) if metric in of_the_paper]
    if not wanted:
        return config
    others = [one for one in _metrics(config) if parse_metric(one).metric not in of_the_paper.intersection(named)]
    generation: Any = config.task_settings.get("generation") or {}
    changed = {**config.task_settings, "generation": {**generation, "metrics": [*others, *wanted]}}
    return config.model_copy(update={"task_settings": changed})


def _metrics(config: CompareConfig) -> list[str | dict[str, Any]]:
    """The metrics of generated texts of a comparison; empty if its task generates none."""
    from nextword.experiments.tasks import registry

    fields = registry.get(config.task).Config.model_fields
    if "generation" not in fields:
        return []
    kind: Any = fields["generation"].annotation
    settings: Any = config.task_settings.get("generation") or {}
    return list(getattr(validated(kind, settings, "task.generation"), "metrics", []))
