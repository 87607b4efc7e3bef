"""Train and evaluate several methods (heads with their objectives) under the same conditions.

All methods get the same data, initial checkpoint, settings and seeds, and therefore the same batches.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.experiments.comparison.comparison_settings import CompareConfig, build_task, configured, plain, read
from nextword.experiments.comparison.engines.engine import Engine, Sequential, needs
from nextword.experiments.comparison.folder import ComparisonFolder, fingerprint
from nextword.experiments.comparison.grid_search import finished_searches, settled
from nextword.experiments.comparison.initial_checkpoint import InitialCheckpoint, prepare_start
from nextword.experiments.comparison.measured_texts import measured_texts, written_examples
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.experiments.comparison.preflight import checked_task
from nextword.experiments.comparison.stored_start import is_stored, stored_start
from nextword.experiments.tasks.task import location_of
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
from nextword.settings.call_forms import RECIPE, CallForms

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task

logger = logging.getLogger(__name__)


class ComparisonInterrupted(KeyboardInterrupt):
    """Raised on Ctrl-C. The message names the finished runs; the same call to ``compare`` does the remaining ones."""


@CallForms(
    renamed={"config": RECIPE, "methods": "heads", "folder": "out"},
    tables=("task", "start", "training", "second_training", "fine_tuning"),
    positions=["out", "progress", "command", "engine"],
    read=read,
)
def compare(  # noqa: PLR0913  (its options)
    model: str | Path | None = None,
    data: str | Path | None = None,
    *,
    out: str | Path,
    heads: Sequence[str | Mapping[str, Any]] = (),
    task: str | Mapping[str, Any] | None = None,
    encoder: str | Path | None = None,
    seeds: Sequence[int] = (0,),
    start: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    second_training: Mapping[str, Any] | None = None,
    fine_tuning: Mapping[str, Any] | None = None,
    states: str | Path | None = None,
    threads: int | None = None,
    keep_models: bool = True,
    recipe: Mapping[str, Any] | str | Path | None = None,
    progress: Watcher | None = None,
    command: str | None = None,
    engine: Engine | None = None,
) -> Results:
    r"""Train and evaluate several heads under the same conditions; write ``results.json`` and ``report.html``.

    The data, the initial checkpoint, the training settings, the seeds and therefore the batches are the same for all
    heads. A run is one head trained with one seed. Finished runs are kept: a second call with the same settings does
    only the unfinished runs. A second call may also add heads and seeds. If a run fails (for instance because it
    diverges or runs out of memory), ``compare`` lists it in ``Results.failures`` and continues with the other runs. A
    second call tries failed runs again.

    Args:
        model: The initial checkpoint of all heads: the folder, GGUF file or hub name of a language model with the
            architecture that the task needs. None: a small model, which ``compare`` trains once for the task.
        data: Data of the task: a file, a folder or a hub name.
        out: Folder for all results. A folder that has another comparison or other files raises an error.
        heads: Heads to compare, each as ``"head"``, ``"head/objective"`` or
            ``"head/objective/conditioner"``, such as ``"cache/histalign"``, or as a dict with more settings
            (``docs/compare.md``). Tables keep this order.
        task: Name of the task (``nextword list tasks``), or a dict with its ``name`` and settings.
        encoder: Folder or hub name of the model that encodes auxiliary texts, for tasks that have such texts.
        seeds: Training seeds; each head is trained once per seed. A seed sets batch order, dropout and new weights.
        start: Further settings of the initial checkpoint: ``seed`` and ``training`` of the small model.
        training: Training settings for all heads, such as ``{"steps": 500}``, which override the task's settings.
        second_training: Training settings for the second stage of heads that are trained in two stages (``then``). They
            override the settings of the first stage.
        fine_tuning: Default learning rates and warm-up, used instead of the task's defaults. None: the defaults of
            fine-tuning if the model is pretrained, the task's defaults if it is the small model (``docs/train.md``).
        states: Folder of stored hidden states of the initial checkpoint, built if missing. Only the heads are then
            trained, on these states; the model itself does not run in training (``docs/states.md``).
        threads: Number of CPU threads; None: torch's default.
        keep_models: Whether to keep the trained models. A finished run cannot be inspected without its model.
        recipe: A TOML file, a built-in recipe (``nextword list recipes``) or a dict with settings. They have the names
            of these arguments, except that ``heads`` is named ``methods``. Arguments given in addition override the
            recipe's settings; dicts are merged.
        progress: Watcher that receives the progress.
        command: Command line that repeats the comparison; the report shows it.
        engine: Engine that schedules the runs. None: the runs follow one another in this process.

    Returns:
        All runs with their metrics, and the failed runs.

    Raises:
        ValueError: If the settings do not fit the task or the folder, a head does not fit the model, another process is
            using the folder, or the engine is not available.
        DiskFullError: If the disk is full.
        ComparisonInterrupted: On Ctrl-C.

    Examples:
        >>> import tempfile
        >>> import nextword as nw
        >>> folder = Path(tempfile.mkdtemp())
        >>> written = (folder / "book.txt").write_text("The king sat and the queen stood.\n" * 1000)
        >>> short = {"steps": 1, "batch_size": 2}
        >>> results = nw.compare(
        ...     data=folder / "book.txt",
        ...     task="lm",
        ...     heads=["softmax", "cache/histalign"],
        ...     start={"training": short},
        ...     training=short,
        ...     out=folder / "runs",
        ... )
        >>> [run.method for run in results.runs]
        ['softmax', 'cache/histalign']
        >>> results.runs[0].evaluation.metrics["perplexity"].value > 1
        True
    """
    given = {
        "task": task,
        "data": data,
        "encoder": encoder,
        "start": start if model is None else {**(start or {}), "model": model},
        "training": training,
        "second_training": second_training,
        "fine_tuning": fine_tuning,
        "states": None if states is None else str(states),
        "threads": threads,
    }
    settings = {
        **(recipe if isinstance(recipe, Mapping) else {}),  # also keys that ``compare`` has no arguments for
        **{name: value for name, value in given.items() if value is not None},
        "methods": heads,
        "seeds": seeds,
        "keep_models": keep_models,
    }
    return compare_methods(configured(settings), out, progress, command, engine)


def compare_methods(
    config: CompareConfig,
    folder: str | Path,
    progress: Watcher | None = None,
    command: str | None = None,
    engine: Engine | None = None,
) -> Results:
    """Do what ``compare`` does, with the settings in ``config`` and the results in ``folder``."""
    place, command, engine = ComparisonFolder(folder), command or DEFAULT_COMMAND, engine or Sequential()
    if not processes.is_main():
        fit_with_main()
        return Results.load(place.results)
    with processes.leading():
        config = place.as_begun(config)
        task = checked_task(config)
        place.expect(config, task)
        if config.start.model is not None and not place.start.exists():
            location_of(config.start.model, "start.model")  # before anything is written
        engine.expect(config)
        stages = progress or Watcher()
        with disk_full_explained(place.path), locked(place.path, command), cpu_threads(config.threads):
            place.begin(config, task)
            return _do_missing_runs(config, task, place, stages, command, engine)


def make_start(
    config: CompareConfig, folder: str | Path, progress: Watcher | None = None, command: str | None = None
) -> InitialCheckpoint:
    """Make the initial checkpoint of a comparison in ``folder`` if it is missing, and start no runs.

    Arguments and errors are as in ``compare_methods``, without ``engine``. A later call of ``compare_methods`` uses the
    checkpoint.
    """
    place = ComparisonFolder(folder)
    task, config = build_task(config), place.as_begun(config)
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
    # the caller has locked the folder, and has checked that it belongs to this comparison
    runs = [Run(method, seed) for seed in config.seeds for method in config.methods]
    done = {run: record for run in runs if (record := place.finished(run.method, run.seed)) is not None}
    failed: dict[Run, FailedRun] = {}
    with _interruption_explained(runs, done, place):
        unfinished = len(done) < len(runs)
        start = prepare_start(config, task, place.start, stages, unfinished and not is_stored(config))
        place.write_manifest(fingerprint(config, task))
        setting = Setting(config, task, place, start, stages)
        if unfinished and config.states is not None:
            setting = setting.beginning_from(stored_start(setting, config.states, command))

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


DEFAULT_COMMAND = "nextword.compare(recipe=..., out=...)"
"""Command recorded for a comparison that was started from Python."""


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
    try:  # a report that cannot be made yet must not end the comparison
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
    """Inside the ``with`` block, torch uses ``wanted`` CPU threads; None: as many as before."""
    before = torch.get_num_threads()
    if wanted is not None:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
