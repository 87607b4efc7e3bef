"""Trains and measures several methods under the same conditions.

Same data, same start from one file, same settings, same seeds and therefore the same batches: only the method differs.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import set_seed

import nextword as nw
from nextword.records import Environment, Evaluation, Results, RunRecord
from nextword.training.config import CompareConfig, build_task, plain
from nextword.training.folder import ComparisonFolder
from nextword.training.method import TEST_TIME_OBJECTIVE, Method
from nextword.training.progress import Progress, Silent
from nextword.training.settings import TrainingSettings, merged
from nextword.training.stages import Stages
from nextword.training.start import CommonStart, attached, prepare_start
from nextword.training.train import TrainingOutcome, train

if TYPE_CHECKING:
    from datasets import Dataset

    from nextword.tasks import Task

logger = logging.getLogger(__name__)


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C during a comparison; says what is finished. The same call again does the rest."""


@dataclass(frozen=True)
class Run:
    """One method with one seed."""

    method: Method
    seed: int

    @property
    def name(self) -> str:
        """What a person reads."""
        return f"{self.method.title}, seed {self.seed}"


@dataclass(frozen=True)
class _Setting:
    """What all runs share."""

    config: CompareConfig
    task: Task
    folder: ComparisonFolder
    start: CommonStart
    settings: TrainingSettings
    stages: Stages

    @cached_property
    def training(self) -> Dataset:
        """Training data, tokenised once."""
        return self.task.training(self.start.tokenizer)

    @cached_property
    def validation(self) -> Dataset | None:
        """Validation data, where the settings ask for its loss."""
        return self.task.validation(self.start.tokenizer) if self.settings.evaluate_every else None


def compare(
    config: CompareConfig, folder: str | Path, progress: Progress | None = None, command: str | None = None
) -> Results:
    """Runs every method of ``config`` with every seed and writes ``results.json`` and ``report.html`` into ``folder``.

    Finished runs are kept: a second call with the same config does what is missing. Methods and seeds may be added.

    Args:
        config: What to compare.
        folder: Where everything is written; a folder of another comparison is refused.
        progress: Who is told about progress.
        command: How the user started this, for the report.

    Raises:
        ValueError: The config does not fit the task or the folder, or a method does not fit the model.
        ComparisonInterrupted: Ctrl-C.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("a comparison runs in one process; start it without torchrun")
    progress = progress or Silent()
    for method in config.methods:
        method.expect_known_names()
    task = build_task(config)
    settings = merged(task.training_defaults(), config.training, "training")
    place = ComparisonFolder(folder)
    place.claim(config, task)
    runs = [Run(method, seed) for seed in config.seeds for method in config.methods]
    done = {run: record for run in runs if (record := place.finished(run.method, run.seed)) is not None}
    with _threads(config.threads), _explained(runs, done, place):
        stages = Stages(progress)
        start = prepare_start(config, task, place.start, stages)
        setting = _Setting(config, task, place, start, settings, stages)
        progress.planned(len(runs), len(done))
        for run in runs:
            if run in done:
                continue
            done[run] = _run(run, setting)
            _write(setting, _results(setting, [done[run] for run in runs if run in done], command))
            progress.finished(done[run])
            if not config.keep_models:
                _drop_unneeded(place, runs, done)
    results = _results(setting, [done[run] for run in runs], command)
    place.save(results)
    _report(results, place)
    return results


def _run(run: Run, setting: _Setting) -> RunRecord:
    method, stages = run.method, setting.stages
    outcome = setting.folder.trained_outcome(method, run.seed) or _train(run, setting)
    # What is measured is what was saved, so that a user who loads the folder gets this very model.
    model: Any = nw.load(setting.folder.trained(method, run.seed) / "model")
    if method.trained_as:
        model = attached(model.backbone, method.head, TEST_TIME_OBJECTIVE, run.seed)
    model.to(_device())
    model.eval()
    set_seed(run.seed)
    tuned: dict[str, float | None] = {}
    if method.is_tuned:
        with stages(run.name, "tuning"):
            tuned = setting.task.tune(model, setting.start.tokenizer)
    with stages(run.name, "evaluation") as advanced, torch.no_grad():
        evaluation = setting.task.evaluate(model, setting.start.tokenizer, advanced)
    record = _record(run, setting, outcome, _with_tuned(evaluation, tuned))
    record.save(setting.folder.record(method, run.seed))
    return record


def _train(run: Run, setting: _Setting) -> TrainingOutcome:
    method, folder = run.method, setting.folder.trained(run.method, run.seed)
    with setting.stages(run.name, "training") as advanced:
        model = attached(setting.start.backbone(), method.trained_head, method.objective, run.seed)
        outcome = train(
            model,
            setting.training,
            setting.settings,
            seed=run.seed,
            folder=folder,
            validation=setting.validation,
            progress=advanced,
        )
        model.save_pretrained(folder / "model")
        setting.start.tokenizer.save_pretrained(folder / "model")
        outcome.save(folder / "outcome.json")
        setting.folder.drop_checkpoints(folder)
    return outcome


def _record(run: Run, setting: _Setting, outcome: TrainingOutcome, evaluation: Evaluation) -> RunRecord:
    used: dict[str, Any] = {"training": plain(setting.settings), "method": plain(run.method)}
    if outcome.validation_curve:
        used["validation_curve"] = [plain(point) for point in outcome.validation_curve]
    return RunRecord(
        method=run.method.title,
        head=run.method.head,
        objective=run.method.objective,
        seed=run.seed,
        evaluation=evaluation,
        cost=outcome.cost,
        curve=outcome.curve,
        settings=used,
        note=run.method.note,
    )


def _with_tuned(evaluation: Evaluation, tuned: dict[str, float | None]) -> Evaluation:
    return evaluation.model_copy(update={"tuned": {**evaluation.tuned, **tuned}})


def _results(setting: _Setting, records: list[RunRecord], command: str | None) -> Results:
    return Results(
        task=setting.config.task,
        task_version=setting.task.version,
        command=command or "nextword.training.compare.compare(config, folder)",
        data=setting.task.describe(),
        start=setting.start.record.summary(),
        seeds=list(setting.config.seeds),
        runs=records,
        environment=Environment.collect(),
        settings=plain(setting.config),
    )


def _write(setting: _Setting, results: Results) -> None:
    """Results so far; a page that cannot be drawn yet must not end the comparison."""
    setting.folder.save(results)
    try:
        _report(results, setting.folder)
    except Exception as problem:
        logger.warning("no report of the runs so far: %s", problem)


def _report(results: Results, folder: ComparisonFolder) -> None:
    from nextword.report import write_report

    write_report(results, folder.report)


def _drop_unneeded(folder: ComparisonFolder, runs: list[Run], done: dict[Run, RunRecord]) -> None:
    needed = {folder.trained(run.method, run.seed) for run in runs if run not in done}
    for run in done:
        if folder.trained(run.method, run.seed) not in needed:
            folder.drop_model(run.method, run.seed)


@contextlib.contextmanager
def _explained(runs: list[Run], done: dict[Run, RunRecord], folder: ComparisonFolder) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        names = "; ".join(run.name for run in runs if run in done) or "none"
        raise ComparisonInterrupted(
            f"{len(done)} of {len(runs)} runs are finished and kept in {folder.path} ({names})"
        ) from None


@contextlib.contextmanager
def _threads(wanted: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if wanted is not None:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _device() -> torch.device:
    return torch.accelerator.current_accelerator() or torch.device("cpu")
