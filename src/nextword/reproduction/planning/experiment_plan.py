"""The plan of one experiment: what it trains, what that takes, and everything that is wrong with it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.comparison.comparison_settings import CompareConfig, build_task, plain
from nextword.comparison.measured_texts import expect_measurable
from nextword.comparison.preflight import check_settings
from nextword.comparison.recipe import configured, read
from nextword.comparison.stage_settings import stage_settings
from nextword.config import validated
from nextword.pretrained import MINILM, encoder_named
from nextword.reproduction.data_sets import named
from nextword.reproduction.experiment import AtScale, find_experiment
from nextword.reproduction.paper import find_table
from nextword.reproduction.planning.judge_models import Findings, find_model, judge_models
from nextword.reproduction.planning.made_up_data import made_up_task
from nextword.reproduction.planning.memory import models_on_disk, training_memory
from nextword.reproduction.planning.meta_models import ModelSize, method_size, zipf_counts
from nextword.reproduction.planning.published_models import model_config
from nextword.reproduction.planning.start_models import raw_paths, start_config, start_name, start_training
from nextword.reproduction.planning.training_time import Speed, measured_steps, training_seconds
from nextword.reproduction.planning.work import (
    PlannedTraining,
    RowLength,
    planned_trainings,
    products,
    row_length,
    tokens_of_a_step,
    training_rows,
)
from nextword.reproduction.reproduce_tables import Request
from nextword.tasks import registry
from nextword.training.settings import TrainingSettings, merged
from nextword.weights.model_size_check import free_memory

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from nextword.tasks import Task


@dataclass(frozen=True)
class ExperimentPlan:
    """One experiment. Numbers are over all its trainings and seeds; ``None`` is not known.

    Attributes:
        name: Of the experiment.
        tables: That it helps to fill, of those asked for.
        recipe: What it runs.
        data: What it reads, as experiments name it: a data set, or a file in it.
        methods: How many are compared.
        seeds: With which each is trained.
        trainings: How many there are, those of searches too; methods may share some.
        start: What all methods begin from.
        row: Tokens of a training row.
        steps: Optimiser steps.
        tokens: Read in training.
        parameters: Of the largest method.
        trained: Of them, those that are trained.
        memory: Bytes of the largest training at its peak, an estimate.
        disk: Bytes of models and checkpoints.
        seconds: Of all trainings and the start.
        measured: Whether that was measured.
        problems: What is wrong, a line each.
        notes: What must be known, a line each.
    """

    name: str
    tables: list[str]
    recipe: str
    data: list[str]
    methods: int = 0
    seeds: list[int] = field(default_factory=list)
    trainings: int = 0
    start: str = ""
    row: RowLength | None = None
    steps: int | None = None
    tokens: int | None = None
    parameters: int | None = None
    trained: int | None = None
    memory: int | None = None
    disk: int | None = None
    seconds: float | None = None
    measured: bool = False
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def experiment_plan(name: str, request: Request, folder: Path, speed: Speed) -> ExperimentPlan:
    """Plans an experiment that is done at the scale of a request.

    Args:
        name: Of the experiment.
        request: What is to be reproduced.
        folder: Of the experiment, which may have finished runs.
        speed: Of the device.

    Raises:
        ValueError: A change that the experiment's settings do not know.
    """
    one = find_experiment(name).at(request.scale)
    if one is None:
        raise ValueError(f"experiment '{name}' is not done at scale {request.scale}")
    findings = Findings(problems=request.data.missing(one.data.values()))
    tables = [table for table in request.tables if name in find_table(table).experiments]
    complete, read_data = not findings.problems, named(one.data.values())
    sketch = ExperimentPlan(name, tables, one.recipe, read_data, problems=findings.problems, notes=findings.notes)
    data = {key: request.data.resolved(wanted) for key, wanted in one.data.items()} if complete else one.data
    config = configured(read(one.recipe), [*one.overrides, *raw_paths(data), *request.changes])
    task = _checked_task(config, one, request, findings) if complete else made_up_task(config, one.data)
    findings.notes += request.data.too_small(one.data.values()) if complete else []
    if task is not None and task.writes is not None:
        judge_models(task.writes.texts, findings)
    if config.start.model is not None:
        find_model(config.start.model, "start.model", findings)
    try:
        origin = (config, task) if one.start is None else _origin(one.start, request)
        return _Experiment.of(one, config, task, start_config(*origin), speed).planned(sketch, folder)
    except ValueError as problem:
        findings.problems += str(problem).splitlines()
        return sketch


def _origin(name: str, request: Request) -> tuple[CompareConfig, Task | None]:
    """The experiment that makes the start of another; no task where its data is missing, which its own plan says."""
    one = find_experiment(name).at(request.scale)
    if one is None:
        raise ValueError(f"start: must be an experiment at scale {request.scale} ({name} given)")
    complete = not request.data.missing(one.data.values())
    data = {key: request.data.resolved(wanted) for key, wanted in one.data.items()} if complete else one.data
    config = configured(read(one.recipe), [*one.overrides, *raw_paths(data), *request.changes])
    return config, build_task(config) if complete else made_up_task(config, one.data)


def _checked_task(config: CompareConfig, one: AtScale, request: Request, findings: Findings) -> Task | None:
    """The task, after everything that a comparison checks before it makes its start."""
    try:
        task = build_task(config)
    except (ValueError, OSError) as problem:
        findings.problems += request.data.explained(str(problem), one.data.values())
        return None
    try:
        for method in config.methods:
            method.expect_known_names()
        check_settings(config, task)
        expect_measurable(task, config.methods)
    except ValueError as problem:
        findings.problems += str(problem).splitlines()
    return task


@dataclass(frozen=True)
class _Experiment:
    """What is known of an experiment before anything is built.

    Attributes:
        scale: It at its scale.
        config: Its comparison.
        settings: Of its task, with defaults.
        length: Of a training row; None: not known.
        trainings: All of them.
        beginning: How the task's own start is trained, and on rows of which length; None: it is not.
        backbone: Configuration of the start; None: its data is missing.
        speed: Of the device.
    """

    scale: AtScale
    config: CompareConfig
    settings: Mapping[str, Any]
    length: RowLength | None
    trainings: Sequence[PlannedTraining]
    beginning: tuple[TrainingSettings, RowLength] | None
    backbone: PretrainedConfig | None
    speed: Speed

    @classmethod
    def of(
        cls, scale: AtScale, config: CompareConfig, task: Task | None, backbone: PretrainedConfig | None, speed: Speed
    ) -> _Experiment:
        """Everything that follows from settings and data.

        Raises:
            ValueError: A wrong setting, or a start of which nothing is known.
        """
        kind = registry.get(config.task)
        settings = plain(validated(kind.Config, config.task_settings, "task"))
        length = row_length(settings, task)
        common = merged(kind.training_defaults, config.training, "training")
        beginning = None if scale.start is not None else start_training(config, task, settings, length)
        trainings = planned_trainings(config, common, training_rows(task), length)
        return cls(scale, config, settings, length, trainings, beginning, backbone, speed)

    def planned(self, sketch: ExperimentPlan, folder: Path) -> ExperimentPlan:
        """The whole plan.

        Raises:
            ValueError: A method that does not fit the start, named.
        """
        counted = replace(
            sketch,
            methods=len(self.config.methods),
            seeds=list(self.config.seeds),
            trainings=sum(one.runs for one in self.trainings),
            start=f"that of {self.scale.start}" if self.scale.start else start_name(self.config, self.beginning),
            row=self.length,
            steps=_total([None if one.steps is None else one.steps * one.runs for one in self.trainings]),
            tokens=_total([None if one.tokens is None else one.tokens * one.runs for one in self.trainings]),
        )
        if self.backbone is None:
            counted.notes.append("no model was built: how large the start is, the missing data says")
            return counted
        sizes = self._sizes(self.backbone)
        return self._timed(self._sized(counted, sizes, self.backbone), sizes, folder)

    def _sizes(self, backbone: PretrainedConfig) -> dict[str, ModelSize]:
        """Every method, those of searches too, built on the meta device; by title."""
        common = merged(registry.get(self.config.task).training_defaults, self.config.training, "training")
        encoder = self._encoder()
        sizes = {}
        with tempfile.TemporaryDirectory() as scratch:
            counts = zipf_counts(backbone.get_text_config(decoder=True).vocab_size, Path(scratch) / "counts.npz")
            for method in (candidate for one in self.config.methods for candidate in one.candidates):
                stages = stage_settings(method, common, self.config)
                try:
                    sizes[method.title] = method_size(method, backbone, stages, encoder, counts)
                except ValueError as problem:
                    raise ValueError(f"method '{method.title}': {problem}") from problem
        return sizes

    def _encoder(self) -> PretrainedConfig | None:
        """Of the auxiliary texts; ``None``: no method has a conditioner, or the package of the encoder is missing."""
        if all(method.conditioner is None for method in self.config.methods):
            return None
        name = encoder_named(self.settings.get("encoder") or MINILM)
        return None if name is None else model_config(name, "task.encoder")

    def _sized(
        self, plan: ExperimentPlan, sizes: Mapping[str, ModelSize], backbone: PretrainedConfig
    ) -> ExperimentPlan:
        largest = max(sizes.values(), key=lambda size: (size.parameters, size.trained))
        smallest = min(size.parameters for size in sizes.values())
        start = ModelSize(smallest, smallest, smallest)
        models = [sizes[one.method.title] for one in self.trainings for _ in range(one.runs)]
        models += [sizes[one.title] for one in self.config.methods if not one.trained for _ in self.config.seeds]
        peaks = [
            training_memory(sizes[one.method.title], backbone, one.settings, self.length)
            for one in self.trainings
            if self.length is not None
        ]
        memory = max(peaks, default=None)
        room = free_memory() if self.speed.memory is None else self.speed.memory
        if memory is not None and room is not None and memory > room:
            plan.notes.append(f"takes about {memory / 1e9:.0f} GB of memory, and there are {room / 1e9:.0f} GB")
        return replace(
            plan,
            parameters=largest.parameters,
            trained=max(size.trained for size in sizes.values()),
            memory=memory,
            disk=models_on_disk(models, start, self.config.keep_models),
        )

    def _timed(self, plan: ExperimentPlan, sizes: Mapping[str, ModelSize], folder: Path) -> ExperimentPlan:
        if self.scale.minutes is not None:
            return replace(plan, seconds=60 * (self.scale.minutes + (self.scale.start_minutes or 0)), measured=True)
        measured = measured_steps(folder)
        seconds = [training_seconds(one, self._products(one, sizes), self.speed, measured) for one in self.trainings]
        if any(one is None for one in seconds):
            return plan
        of_start = 0.0
        if self.beginning is not None:
            settings, length = self.beginning
            smallest = min(size.parameters for size in sizes.values())
            tokens = (settings.steps or 0) * tokens_of_a_step(settings, length)
            of_start = self.speed.seconds(products(smallest, smallest, tokens), settings)
        titles = {one.method.title for one in self.trainings}
        return replace(plan, seconds=sum(one or 0.0 for one in seconds) + of_start, measured=titles <= measured.keys())

    @staticmethod
    def _products(one: PlannedTraining, sizes: Mapping[str, ModelSize]) -> float | None:
        size = sizes[one.method.title]
        return None if one.tokens is None else products(size.passed, size.trained, one.tokens)


def _total(numbers: Sequence[int | None]) -> int | None:
    """Their sum; ``None`` where one is not known."""
    return None if any(one is None for one in numbers) else sum(one or 0 for one in numbers)
