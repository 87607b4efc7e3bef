"""``nw.train``: train one model, evaluate it, and save it in a folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from transformers import TrainerCallback

from nextword.checking.checker import check
from nextword.experiments.tasks import Task
from nextword.experiments.tasks.small_start import SmallStart
from nextword.experiments.training import one_training
from nextword.experiments.training.collator import TaskRows
from nextword.experiments.training.learning_rates import NEW, expect_trained, harsh_rates
from nextword.experiments.training.loss_curve import DivergedError, TrainingOutcome, rises_steadily, warning
from nextword.experiments.training.one_training import curve_of
from nextword.experiments.training.run_folder import RunFolder
from nextword.experiments.training.settings import FineTuning, TrainingSettings, merged
from nextword.experiments.training.sharding import whole_model
from nextword.experiments.training.starting_model import (
    data_task,
    has_encoder,
    keeps_its_head,
    starting_model,
    starting_tokenizer,
)
from nextword.experiments.training.stored_training import expect_stored_rows, measured, stored_backbone, writer_of
from nextword.experiments.training.train_config import TrainConfig, configured, read
from nextword.experiments.training.trainable import (
    trainable,
    trained_group_names,
    trained_modules,
    with_applicable_rates,
)
from nextword.experiments.training.trainer_arguments import expect_available
from nextword.functional.padding import IGNORED_LABEL
from nextword.heads import head_spec
from nextword.model.card import CardData, CardFacts, CardResult, hub_name
from nextword.model.forward.output_layer import weights_at_fault
from nextword.model.saving import save_model_folder
from nextword.results.records import Environment, disk_full_explained, locked, measures_of
from nextword.results.records.comparison_results import PropertySummary, TrainingResults
from nextword.runtime import processes
from nextword.runtime.devices import best_device
from nextword.runtime.pretrained import load_tokenizer
from nextword.runtime.progress import Watcher
from nextword.settings.call_forms import RECIPE, CallForms
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


LENGTH: dict[str, Any] = {"epochs": 3, "batch_size": 8}
"""Default ``epochs`` and ``batch_size`` for training a saved model. The other defaults are in ``FineTuning``."""

DEFAULT_COMMAND = "nextword.train(recipe=..., out=...)"
"""Command recorded for a training that was started from Python."""


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during a training, which the same call to ``train`` resumes. The message names the newest checkpoint."""


@CallForms(
    renamed={"config": RECIPE},
    tables=("task", "training"),
    positions=["out", "progress", "command"],
    read=read,
)
def train(  # noqa: PLR0913  (its options)
    model: str | Path | None = None,
    data: str | Path | None = None,
    *,
    out: str | Path,
    head: str | Mapping[str, Any] | None = None,
    objective: str | Mapping[str, Any] = "mle",
    conditioner: str | Mapping[str, Any] | None = None,
    encoder: str | Path | None = None,
    task: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    states: str | Path | None = None,
    seed: int = 0,
    keep_checkpoints: bool = False,
    recipe: Mapping[str, Any] | str | Path | None = None,
    progress: Watcher | None = None,
    command: str | None = None,
) -> TrainingResults:
    r"""Train a model and save it in the folder ``out``, from which ``nextword.load`` and transformers load it.

    If the training is interrupted, the same call resumes it. On a CPU the weights are then bitwise equal to those of a
    training without interruption. If the training has finished, the call only returns its record.

    With torchrun or ``accelerate launch``, all processes train, and the main process does everything else.

    Args:
        model: Folder, GGUF file or hub name of the model to train (nextword or transformers). ``"small"`` is a small
            GPT-2 with random weights and a tokenizer trained on the data; ``"small-t5"`` is the same with a small T5.
        data: Data for training, validation and test (running text, source-target pairs, or text with auxiliary texts):
            a file, a folder or a hub name. A single file is split into these three parts.
        out: Folder of the trained model. A folder that has another training or other files raises an error.
        head: Head spec such as ``"cache"`` or ``"mos:3"``, or its settings as a dict. None: the head of the nextword
            model in the folder ``model``; for any other model, a head must be given.
        objective: Objective (training loss) spec such as ``"histalign"``, or its settings as a dict.
        conditioner: Conditioner spec such as ``"bergpt:2"``, or its settings as a dict, for data with auxiliary texts;
            None: no conditioner.
        encoder: Encoder of the auxiliary texts, such as ``"minilm"``.
        task: Further settings of the task that reads the data, such as ``{"block": 512}``. Its ``kind`` (``"text"``,
            ``"pairs"`` or ``"auxiliary"``) overrides the detected kind of the data.
        training: Training settings that override the defaults, such as ``{"steps": 500, "lora": {"rank": 8}}``;
            ``docs/train.md`` lists them.
        states: Folder of stored states (``docs/states.md``), given instead of ``model`` and ``data``. The backbone is
            then not trained.
        seed: Random seed of new parameters, batch order and dropout.
        keep_checkpoints: Whether to keep the checkpoints after the training has finished.
        recipe: Settings under the names of these arguments, as a TOML file or a dict. Arguments given in addition
            override the recipe's settings; ``task`` and ``training`` are merged.
        progress: Watcher that receives the progress.
        command: Command line that repeats the training; the record and the model card show it.

    Returns:
        The record of the training: test metrics with 95 % intervals, results of the checker, loss curve and cost.

    Raises:
        ValueError: If the settings do not fit the model, the data or the folder, another process is using the folder,
            or the loss becomes NaN or infinite.
        DiskFullError: If the disk is full.
        TrainingInterrupted: On Ctrl-C.

    Examples:
        >>> import tempfile
        >>> import nextword as nw
        >>> folder = Path(tempfile.mkdtemp())
        >>> written = (folder / "book.txt").write_text("The king sat and the queen stood.\n" * 1000)
        >>> results = nw.train(
        ...     "small",
        ...     folder / "book.txt",
        ...     head="cache",
        ...     objective="histalign",
        ...     training={"steps": 1, "batch_size": 2},
        ...     out=folder / "model",
        ... )
        >>> results.evaluation.metrics["perplexity"].value > 1
        True
        >>> nw.load(folder / "model").next_word_head.config.head
        'cache'
    """
    given = {
        "model": model,
        "data": data,
        "head": head,
        "objective": None if objective == "mle" else objective,  # the recipe's ``method`` may set another objective
        "conditioner": conditioner,
        "encoder": encoder,
        "task": task,
        "training": training,
        "states": None if states is None else str(states),
    }
    settings = {
        **(recipe if isinstance(recipe, Mapping) else {}),  # also keys that ``train`` has no arguments for
        **{name: value for name, value in given.items() if value is not None},
        "seed": seed,
        "keep_checkpoints": keep_checkpoints,
    }
    return train_model(configured(settings), out, progress, command)


def train_model(
    config: TrainConfig, out: str | Path, progress: Watcher | None = None, command: str | None = None
) -> TrainingResults:
    """Do what ``train`` does, with the settings in ``config``."""
    folder, watcher = RunFolder(out), progress or Watcher()
    if not processes.is_main():
        one_training.fit_with_main()
        return TrainingResults.load(folder.record)
    command = command or DEFAULT_COMMAND
    with processes.leading():
        config.expect_known_names()
        folder.expect(config)
        results = folder.finished()
        if results is not None:
            if not config.keep_checkpoints:
                folder.drop_checkpoints()
            return results
        with disk_full_explained(folder.path), _told_what_is_kept(folder), locked(folder.path, command):
            results = _carry_out(config, folder, watcher, command)
        overfitted = warning(results.validation_curve, results.best_step is not None, finished=True)
        if overfitted:
            watcher.warned(overfitted)
        return results


def _carry_out(config: TrainConfig, folder: RunFolder, watcher: Watcher, command: str) -> TrainingResults:
    # the caller has locked the folder
    with watcher("data"):
        task = data_task(config, has_encoder(config))
        settings = folder.begun_settings() or training_settings(config, task)
        expect_available(settings)
        files = task.data.describe()
        folder.begin(config, files)
        tokenizer = starting_tokenizer(config, task, folder)
    with watcher("model"):
        model = starting_model(config, settings, task, tokenizer, folder, stored_backbone(config, settings))
        with trainable(model, settings, config.seed):
            asked: Any = config.training.get("learning_rates", {})
            expect_trained(asked, model)
            parameters = sum(trained_modules(model).values())
        settings = with_applicable_rates(settings, model)
    if not config.is_small:
        for line in harsh_rates(settings, trained_group_names(model, settings)):
            watcher.warned(line)
    with watcher("rows"):
        rows = TaskRows(task.data, tokenizer)
        expect_stored_rows(model, task, tokenizer, rows, config)
        use = DataUse.of(len(rows.training), settings)
        settings = _validated(rows, settings, use.watched(settings, config.training))
    watcher.noted(use.sentence(rows.training, parameters, settings))
    outcome = _trained(config, settings, model, rows, folder, watcher)
    outcome.save(folder.training / "outcome.json")
    model = whole_model(model, folder.training).to(best_device())
    with watcher("measuring") as advanced:
        evaluation = measured_on_test_part(measured(model, task, config.model), tokenizer, task, advanced)
    with watcher("checking and saving"):
        results = results_of(config, task, settings, model, outcome, evaluation, command)
        encoder = task.data.encoder() if model.conditioner is not None else None
        auxiliary = None if encoder is None else load_tokenizer(encoder, "encoder")
        save_model_folder(
            model.cpu(), tokenizer, folder.path, _card(config, results), auxiliary, writer_of(model, config.model)
        )
        results.save(folder.record)
    if not config.keep_checkpoints:
        folder.drop_checkpoints()
    return results


def training_settings(config: TrainConfig, task: Task) -> TrainingSettings:
    """``config.training`` with defaults: those of the task's small model, or ``FineTuning`` for a saved model.

    Raises:
        ValueError: If a setting is unknown or wrong.
    """
    if config.is_small:
        assert isinstance(task.start, SmallStart)
        return merged(task.start.training, config.training, "training")
    defaults = FineTuning().over(LENGTH, config.training)
    if keeps_its_head(config):  # the model then has no new weights, which have learning rates of their own
        defaults["learning_rates"] = {
            name: rate for name, rate in defaults["learning_rates"].items() if name not in NEW
        }
    return merged(defaults, config.training, "training")


def _validated(rows: TaskRows, asked: TrainingSettings, watched: TrainingSettings) -> TrainingSettings:
    # The settings to train with. Usually they are ``watched``, which follow from the data. They are ``asked`` if the
    # caller did not ask for validation losses and the validation part is too short for them.
    if watched.evaluate_every is None:
        return asked
    try:
        return watched if len(rows.validation) else asked
    except ValueError:
        if asked.evaluate_every is not None:
            raise
        return asked


def _trained(
    config: TrainConfig,
    settings: TrainingSettings,
    model: NextWordModel,
    rows: TaskRows,
    folder: RunFolder,
    watcher: Watcher,
) -> TrainingOutcome:
    validated = settings.evaluate_every is not None
    if fault := weights_at_fault(model):  # otherwise the message would be that the first step diverged
        raise ValueError(f"model: {fault}")
    encoded = rows.encoded(model, validated, partial(watcher, "encoding auxiliary texts"))
    with watcher("training"):
        try:
            return one_training.fit(
                model.train(),
                rows.training,
                settings,
                seed=config.seed,
                folder=folder.training,
                validation=rows.validation if validated else None,
                encoded=encoded,
                progress=StepTeller(watcher, "training", settings.keep_best),
            )
        except DivergedError as problem:
            raise ValueError(
                f"training: {problem}; give a smaller training.learning_rate and another folder ({named('out')})"
                f"{_kept(folder)}"
            ) from problem


@contextmanager
def _told_what_is_kept(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise TrainingInterrupted(f"nothing is lost in {folder.path}{_kept(folder)}") from None


def _kept(folder: RunFolder) -> str:
    checkpoints = folder.checkpoints()
    return f" ({checkpoints[-1]} is kept)" if checkpoints else ""


# -- The trained model: its measurements, the results of the checker, and the folder in which it is saved.

CHECKED_LENGTHS = (1, 6)
"""Lengths in tokens of the random texts on which a trained model is checked. ``nextword check`` adds longer texts."""


def measured_on_test_part(
    model: NextWordModel, tokenizer: PreTrainedTokenizerBase, task: Task, progress: Callable[[float], None]
) -> Any:
    """The task's measurements of ``model`` on the test split."""
    with torch.no_grad():
        return task.measures.evaluate(model.eval(), tokenizer, progress).finite()


def results_of(
    config: TrainConfig,
    task: Task,
    settings: TrainingSettings,
    model: NextWordModel,
    outcome: TrainingOutcome,
    evaluation: Any,
    command: str,
) -> TrainingResults:
    """The record of a finished training. A model without stored states is also checked on random texts."""
    rows = [] if config.states is not None else check(model, lengths=CHECKED_LENGTHS).rows
    checks = [
        {"name": row.name, "verdict": row.verdict, "explanation": None if row.passed else row.explain()} for row in rows
    ]
    return TrainingResults(
        command=command,
        settings=config.model_dump(mode="json"),
        head=head_spec(model.next_word_head.config),
        objective=config.objective_spec,
        conditioner=config.conditioner_spec,
        data={"task": task.name, **task.data.describe(), **task.data.counts()},
        training=settings.model_dump(mode="json"),
        evaluation=evaluation,
        measures=measures_of([evaluation]),
        checks=list(map(PropertySummary.model_validate, checks)),
        cost=outcome.cost,
        curve=outcome.curve,
        validation_curve=outcome.validation_curve,
        best_step=outcome.best_step,
        facts=model.next_word_head.facts(),
        environment=Environment.collect(),
    )


NOT_CHECKED = "not checked: it was trained on stored states; 'nextword check FOLDER' checks it"


def _card(config: TrainConfig, results: TrainingResults) -> CardFacts:
    path = str(config.task["data"])
    data = CardData(name=str(results.data.get("source", Path(path).name)), hub_name=hub_name(path))
    numbers = results.evaluation.metrics
    failed = [one for one in results.checks if one.verdict == "FAILED"]
    passed = sum(one.verdict == "passed" for one in results.checks)
    said = f"{passed} properties hold on random texts, {len(failed)} do not"
    return CardFacts(
        base_model=None if config.is_small else config.model,
        data=(data,),
        command=results.command,
        settings=results.training,
        results=tuple(
            CardResult(metric=name, data=data, measured=value, title=results.measures[name].title)
            for name, value in numbers.items()
        ),
        checks=((said if results.checks else NOT_CHECKED), *(str(one.explanation) for one in failed)),
    )


# -- How often a training reads its data, and what it does if it reads the data many times.

MANY_TIMES = 4.0
"""Number of passes over the data above which a training is expected to overfit. Up to about four passes are nearly as
good as new text (Muennighoff et al. 2023, Scaling Data-Constrained Language Models)."""

VALIDATIONS = 10
"""Default number of validation losses in a training that reads its data more than ``MANY_TIMES`` times."""


@dataclass(frozen=True)
class DataUse:
    """How a training uses its data: ``steps`` counts optimiser steps, ``times`` is how often each row is read."""

    steps: int
    times: float

    @classmethod
    def of(cls, rows: int, settings: TrainingSettings) -> DataUse:
        """The data use of a training with ``settings`` on ``rows`` training rows.

        >>> DataUse.of(80, TrainingSettings(steps=100, batch_size=8)).times
        10.0
        >>> DataUse.of(80, TrainingSettings(epochs=3, batch_size=8)).steps
        30
        """
        steps, at_once = settings.steps_over(rows), settings.batch_size * settings.gradient_accumulation_steps
        return cls(steps, steps * at_once / rows if settings.epochs is None else settings.epochs)

    @property
    def is_repeated(self) -> bool:
        """Whether the data is read more than ``MANY_TIMES`` times."""
        return self.times > MANY_TIMES

    def watched(self, settings: TrainingSettings, given: Mapping[str, Any]) -> TrainingSettings:
        """``settings``, with ``evaluate_every`` and ``keep_best`` added if ``is_repeated``.

        If ``given``, the user's settings, has ``evaluate_every``, nothing is added. If it has ``keep_best``, this value
        is kept; otherwise ``keep_best`` is true if checkpoints are saved.
        """
        if not self.is_repeated or "evaluate_every" in given:
            return settings
        keep_best = given.get("keep_best", settings.checkpoint_every is not None)
        every = max(1, self.steps // VALIDATIONS)
        return settings.model_copy(update={"evaluate_every": every, "keep_best": keep_best})

    def sentence(self, data: Iterable[Mapping[str, Any]], parameters: int, settings: TrainingSettings) -> str:
        """The message before training: how many times ``data`` is read, with advice if more than ``MANY_TIMES``."""
        if not self.is_repeated:
            if self.times < 1:
                return f"{100 * self.times:.2g} % of the training data is read."
            return f"The training data is read {self.times:.1f} times."
        tokens = sum(label != IGNORED_LABEL for row in data for label in row["labels"])
        fewer = (
            f"training.epochs={MANY_TIMES:.0f}"
            if settings.steps is None
            else f"training.steps={max(1, math.floor(self.steps * MANY_TIMES / self.times))}"
        )
        kept = " The weights of the lowest validation loss are kept." if settings.keep_best else ""
        return (
            f"The training data is read {self.times:.1f} times: {tokens:,} tokens to predict, {parameters:,} "
            f"parameters to train. Such repetition leads to overfitting.{kept} To read it less: {fewer}."
        )


# -- What a training reports to its watcher.


class StepTeller(TrainerCallback):
    """Trainer callback that reports progress (share of steps) and losses, and warns once if validation losses rise."""

    NAMES: ClassVar = {"loss": "loss", "eval_loss": "validation loss"}

    def __init__(self, progress: Watcher, name: str, keep_best: bool = False) -> None:
        self._progress, self._name, self._keep_best = progress, name, keep_best
        self._has_warned = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report a finished step."""
        self._progress.advanced(self._name, state.global_step / state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, **logged: Any) -> None:
        """Report losses."""
        losses = {name: logged["logs"][key] for key, name in self.NAMES.items() if key in logged["logs"]}
        if losses:
            self._progress.logged(self._name, state.global_step, state.max_steps, losses)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warn once if the validation losses rise steadily. After the last step, ``train_model`` warns instead."""
        curve = curve_of(state.log_history, "eval_loss")
        if not self._has_warned and state.global_step < state.max_steps and rises_steadily(curve):
            self._has_warned = True
            self._progress.warned(warning(curve, self._keep_best, finished=False))
