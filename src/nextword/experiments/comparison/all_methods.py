"""Trains and measures several methods under the same conditions.

Same data, same start from one file, same settings, same seeds and therefore the same batches: only the method differs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.experiments.comparison.comparison_settings import CompareConfig, build_task, configured, plain
from nextword.experiments.comparison.engines.engine import Engine, Sequential, needs
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.grid_search import finished_searches, settled
from nextword.experiments.comparison.initial_checkpoint import InitialCheckpoint, prepare_start
from nextword.experiments.comparison.measured_texts import measured_texts, written_examples
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.experiments.comparison.preflight import checked_task
from nextword.experiments.training.one_training import fit_with_main
from nextword.results.records import (
    Environment,
    FailedRun,
    Results,
    RunRecord,
    disk_full_explained,
    locked,
    measures_of,
)
from nextword.runtime import processes
from nextword.runtime.progress import Watcher

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task

logger = logging.getLogger(__name__)


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C during a comparison; says what is finished. The same call again does the rest."""


def compare(
    config: CompareConfig | Mapping[str, Any],
    folder: str | Path,
    progress: Watcher | None = None,
    command: str | None = None,
    engine: Engine | None = None,
) -> Results:
    """Runs every method of ``config`` with every seed and writes ``results.json`` and ``report.html`` into ``folder``.

    Finished runs are kept: a second call with the same config does what is missing. Methods and seeds may be added.
    A run that fails (it diverges, memory does not suffice, ...) is in ``Results.failures``, and the others continue; a
    second call tries it again.

    Args:
        config: What to compare: the content of a recipe, or the checked config.
        folder: Where everything is written; a folder of another comparison is refused.
        progress: Receives the progress.
        command: How the user started this, for the report.
        engine: What carries out the runs; one after another in this process by default.

    Raises:
        ValueError: The config does not fit the task or the folder, a method does not fit the model, another process
            is at work in the folder, or the engine cannot be used here.
        DiskFullError: There is no room to write something.
        ComparisonInterrupted: Ctrl-C.

    Examples:
        >>> recipe = {"task": "ambiguous", "methods": ["softmax", "cache/histalign"], "seeds": [0, 1]}
        >>> compare(recipe, "runs/ambiguous").summaries["softmax"]  # doctest: +SKIP
    """
    config = config if isinstance(config, CompareConfig) else configured(dict(config))
    place, command, engine = ComparisonFolder(folder), command or DEFAULT_COMMAND, engine or Sequential()
    if not processes.is_main():
        fit_with_main()
        return Results.load(place.results)
    with processes.leading():
        config = place.as_begun(config)
        task = checked_task(config)
        place.expect(config, task)
        engine.expect(config)
        stages = progress or Watcher()
        with disk_full_explained(place.path), locked(place.path, command), cpu_threads(config.threads):
            place.begin(config, task)
            return _do_missing_runs(config, task, place, stages, command, engine)


def make_start(
    config: CompareConfig, folder: str | Path, progress: Watcher | None = None, command: str | None = None
) -> InitialCheckpoint:
    """Makes the start of a comparison in its folder, where it is not there yet, and trains no method.

    Arguments and errors are those of ``compare``, which finds the start there.
    """
    place = ComparisonFolder(folder)
    task, config = build_task(config), place.as_begun(config)  # whose methods are checked where it is made
    with disk_full_explained(place.path), locked(place.path, command or DEFAULT_COMMAND), cpu_threads(config.threads):
        place.begin(config, task)
        return prepare_start(config, task, place.start, progress or Watcher())


def _do_missing_runs(
    config: CompareConfig,
    task: Task,
    place: ComparisonFolder,
    stages: Watcher,
    command: str,
    engine: Engine,
) -> Results:
    # in a folder that is this comparison's and nobody else's
    runs = [Run(method, seed) for seed in config.seeds for method in config.methods]
    done = {run: record for run in runs if (record := place.finished(run.method, run.seed)) is not None}
    failed: dict[Run, FailedRun] = {}
    with _interruption_explained(runs, done, place):
        start = prepare_start(config, task, place.start, stages, unfinished=len(done) < len(runs))
        place.write_manifest(config, task)
        setting = Setting(config, task, place, start, stages)

        def results() -> Results:
            ended = [done[run] for run in runs if run in done], [failed[run] for run in runs if run in failed]
            return _results(setting, *ended, command)

        stages.planned(len(runs), len(done))
        missing = [run for run in runs if run not in done]
        with contextlib.closing(engine.outcomes(missing, setting)) as outcomes:
            for run, outcome in outcomes:
                if isinstance(outcome, FailedRun):
                    failed[run] = outcome
                else:
                    done[run] = outcome
                _save_so_far(setting, results())
                if isinstance(outcome, FailedRun):
                    stages.failed(outcome)
                else:
                    stages.finished(outcome)
                if not config.keep_models:
                    _drop_unneeded_models(config, place, runs, done)
        records = [done[run] for run in runs if run in done]
        texts = measured_texts(setting, records, command)
        whole = results().model_copy(update={"texts": texts, "written": written_examples(setting, records)})
    whole.save(place.results)
    _report(whole, place)
    return whole


DEFAULT_COMMAND = "nextword.experiments.comparison.all_methods.compare(config, folder)"
"""How a comparison is repeated that was not started from the command line."""


def _results(setting: Setting, records: list[RunRecord], failures: list[FailedRun], command: str) -> Results:
    return Results(
        task=setting.config.task,
        task_version=setting.task.version,
        command=command,
        data={**setting.task.data.describe(), **setting.task.data.counts()},
        start=setting.start.record.summary(),
        seeds=list(setting.config.seeds),
        runs=records,
        failures=failures,
        measures=measures_of(record.evaluation for record in records),
        environment=Environment.collect(),
        settings=plain(setting.config),
        searches=finished_searches(setting),
    )


def _save_so_far(setting: Setting, results: Results) -> None:
    results.save(setting.folder.results)
    try:  # a page that cannot be drawn yet must not end the comparison
        _report(results, setting.folder)
    except Exception as problem:
        logger.warning("no report of the runs so far: %s", problem)


def _report(results: Results, folder: ComparisonFolder) -> None:
    from nextword.results.report import write_report

    write_report(results, folder.report)


def _drop_unneeded_models(
    config: CompareConfig, folder: ComparisonFolder, runs: list[Run], done: dict[Run, RunRecord]
) -> None:
    needed = {place for run in runs if run not in done for place in needs(run, config, folder).places}
    for run in done:
        for stage in folder.stages(settled(run.method, folder), run.seed):
            if stage not in needed:
                folder.drop_model(stage)


@contextlib.contextmanager
def _interruption_explained(runs: list[Run], done: dict[Run, RunRecord], folder: ComparisonFolder) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        names = "; ".join(run.name for run in runs if run in done) or "none"
        raise ComparisonInterrupted(
            f"{len(done)} of {len(runs)} runs are finished and kept in {folder.path} ({names})"
        ) from None


@contextlib.contextmanager
def cpu_threads(wanted: int | None) -> Iterator[None]:
    """Inside the ``with`` block, torch computes with so many threads; None: with as many as it does."""
    before = torch.get_num_threads()
    if wanted is not None:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
