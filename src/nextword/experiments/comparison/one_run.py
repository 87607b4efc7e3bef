"""One run: train a method with one seed in one or two stages, evaluate it, and generate its texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import JsonValue
from transformers import set_seed

from nextword.conditioning.auxiliary_tokenizer import ENCODER_TOKENIZER
from nextword.experiments.comparison.comparison_settings import CompareConfig, plain, stage_settings
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.initial_checkpoint import InitialCheckpoint
from nextword.experiments.comparison.method import TEST_TIME_OBJECTIVE, Method
from nextword.experiments.tasks.writing import SeededDecoding
from nextword.experiments.training.collator import TaskRows
from nextword.experiments.training.loss_curve import TrainingOutcome
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.resume import drop_checkpoints
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.sharding import whole_model
from nextword.experiments.training.trainable import with_applicable_rates
from nextword.model.attach import attach
from nextword.results.records import Cost, Evaluation, Record, RunRecord
from nextword.runtime.devices import best_device
from nextword.runtime.pretrained import load_tokenizer
from nextword.runtime.progress import Watcher

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task
    from nextword.model.modeling import NextWordModel

SECOND = 2**31
"""This number is added to the seed in a second stage, so that its batches have another order than in the first."""


@dataclass(frozen=True)
class Run:
    """One method with one training seed."""

    method: Method
    seed: int

    @property
    def name(self) -> str:
        """Title of the method and seed, for messages."""
        return f"{self.method.title}, seed {self.seed}"

    def recorded(self) -> dict[str, Any]:
        """Title, head, objective, conditioner and seed of the run, as fields of a record."""
        return {
            "method": self.method.title,
            "head": self.method.spec,
            "objective": self.method.all_objectives,
            "conditioner": self.method.conditioner_spec,
            "seed": self.seed,
        }


class Measured(Record):
    """Measurements of a trained model, kept while its texts are generated."""

    evaluation: Evaluation
    """The task's measurements."""
    tuned: dict[str, JsonValue]
    """Settings of the head that were chosen on validation data."""


@dataclass(frozen=True)
class Setting:
    """Data shared by all runs."""

    config: CompareConfig
    task: Task
    folder: ComparisonFolder
    start: InitialCheckpoint
    stages: Watcher

    @cached_property
    def rows(self) -> TaskRows:
        """The tokenized data, computed once."""
        return TaskRows(self.task.data, self.start.tokenizer)

    def beginning_from(self, start: InitialCheckpoint) -> Setting:
        """A copy of this object with ``start`` as initial checkpoint. It reuses the tokenized rows."""
        made = replace(self, start=start)
        vars(made)["rows"] = self.rows
        return made


def carry_out(run: Run, setting: Setting) -> RunRecord:
    """Do the unfinished parts of ``run`` (training, measurements, texts), then write and return its record."""
    method, folder = run.method, setting.folder
    outcome = folder.trained_outcome(folder.trained(method, run.seed))
    if outcome is None:
        folder.forget(method, run.seed)  # a new training may give another model
        outcome = train_stages(run, setting)
    model = _load_trained(run, setting)
    set_seed(run.seed)
    measured = _measure(run, setting, model)
    samples = _write_missing_texts(run, setting, model)
    used: dict[str, Any] = {"method": plain(method)}
    stages = stage_settings(method, setting.config)
    used |= {name: plain(one) for name, one in zip(("training", "second_training"), stages, strict=False)}
    if setting.start.stored is not None and method.trained:
        used["states"] = setting.start.stored
    if outcome.validation_curve:
        used["validation_curve"] = [plain(point) for point in outcome.validation_curve]
    record = RunRecord(
        **run.recorded(),
        evaluation=measured.evaluation,
        cost=outcome.cost,
        curve=outcome.curve,
        settings=used,
        note=method.note,
        samples=samples,
        facts=model.next_word_head.facts(),
    )
    record.save(folder.record(method, run.seed))
    folder.measured(method, run.seed).unlink(missing_ok=True)
    return record


def train_stages(run: Run, setting: Setting) -> TrainingOutcome:
    """Do and save the unfinished training stages of ``run``, and return the outcome of all stages together."""
    method = run.method
    first, *second = setting.folder.stages(method, run.seed)
    settings = stage_settings(method, setting.config)
    before = setting.folder.trained_outcome(first)
    # models are passed without a variable, so that the first is freed before the second is loaded
    if before is None and method.trained:
        before = _train_stage(run, setting, first, settings[0], setting.start.attached(method, run.seed))
    elif before is None:
        model = setting.start.attached(method, run.seed)
        parameters = setting.start.parameters(model)
        before = TrainingOutcome(curve=[], cost=Cost(parameters=parameters, trained_parameters=0))
        _save(setting, first, model, before)
    if method.then is None:
        return before
    again = method.then.objective
    model = setting.start.saved(first / "model", again)
    return _train_stage(run, setting, second[0], settings[1], model.train(), before)


def _train_stage(
    run: Run,
    setting: Setting,
    stage: Path,
    settings: TrainingSettings,
    model: NextWordModel,
    before: TrainingOutcome | None = None,
) -> TrainingOutcome:
    # the outcome includes the stage before
    seed = run.seed if before is None else (run.seed + SECOND) % 2**32
    validated, rows = settings.evaluate_every is not None, setting.rows
    encoded = rows.encoded(model, validated, partial(setting.stages, "auxiliary texts", "encoding"))
    parameters = setting.start.parameters(model)
    with setting.stages(run.name, "training" if before is None else "second training") as advanced:
        outcome = fit(
            model.train(),
            rows.training,
            with_applicable_rates(settings, model),
            seed=seed,
            folder=stage,
            validation=rows.validation if validated else None,
            encoded=encoded,
            progress=advanced,
        )
        cost = outcome.cost.model_copy(update={"parameters": parameters})
        outcome = outcome.model_copy(update={"cost": cost})
        outcome = outcome if before is None else before.followed_by(outcome)
        _save(setting, stage, whole_model(model, stage), outcome)
        drop_checkpoints(stage)
    return outcome


def _save(setting: Setting, stage: Path, model: NextWordModel, outcome: TrainingOutcome) -> None:
    setting.start.save(model, stage / "model")
    setting.start.tokenizer.save_pretrained(stage / "model")
    if model.conditioner is not None and setting.start.encoder is not None:
        load_tokenizer(setting.start.encoder, "task.encoder").save_pretrained(stage / "model" / ENCODER_TOKENIZER)
    outcome.save(stage / "outcome.json")


def _load_trained(run: Run, setting: Setting) -> Any:
    # the model as it was saved, so that a user who loads the folder gets the measured model
    method = run.method
    model = setting.start.measured(setting.folder.trained(method, run.seed) / "model", setting.task)
    if method.trained_as:
        set_seed(run.seed)
        model = attach(model, setting.start.filled(method.head), TEST_TIME_OBJECTIVE)
    model.to(best_device())
    return model.eval()


def _measure(run: Run, setting: Setting, model: NextWordModel) -> Measured:
    # afterwards the model has the settings that were chosen on validation data
    method, path = run.method, setting.folder.measured(run.method, run.seed)
    try:
        measured = Measured.load(path)
    except ValueError:
        pass  # the record does not exist, or another version wrote it
    else:
        if measured.tuned:
            model.configure_head(**measured.tuned)
        return measured
    tuned: dict[str, JsonValue] = {}
    if method.is_tuned:
        with setting.stages(run.name, "tuning"):
            tuned = {**setting.task.measures.tune(model, setting.start.tokenizer)}
    with setting.stages(run.name, "evaluation") as advanced, torch.no_grad():
        evaluation = setting.task.measures.evaluate(model, setting.start.tokenizer, advanced)
    evaluation = evaluation.finite().model_copy(update={"tuned": {**evaluation.tuned, **tuned}})
    measured = Measured(evaluation=evaluation, tuned=tuned)
    if setting.task.writes is not None:
        setting.folder.forget(method, run.seed)  # deletes texts of an earlier model
        measured.save(path)
    return measured


def _write_missing_texts(run: Run, setting: Setting, model: NextWordModel) -> dict[str, list[str]]:
    writes, folder = setting.task.writes, setting.folder
    if writes is None:
        return {}
    files: dict[str, dict[Path, SeededDecoding]] = {}
    for way in writes.texts.decodings:
        files[way.title] = draws = {}
        for seed in writes.texts.draws_of(way):
            path = folder.samples(run.method, run.seed, way.title, seed)
            draws[path] = SeededDecoding(way, run.seed if seed is None else seed)
    missing = {path: draw for draws in files.values() for path, draw in draws.items() if not path.exists()}
    if missing:
        with setting.stages(run.name, "texts") as advanced, torch.no_grad():
            writer = setting.start.whole(model).to(best_device()).eval()
            writes.write(writer, setting.start.tokenizer, missing, run.method.generation, progress=advanced)
    return {title: [folder.relative(path) for path in draws] for title, draws in files.items()}
