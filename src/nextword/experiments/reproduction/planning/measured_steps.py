"""Time training steps on this machine: each kind of training runs for a few steps."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from nextword.experiments.comparison.all_methods import cpu_threads
from nextword.experiments.comparison.comparison_settings import plain
from nextword.experiments.comparison.initial_checkpoint import InitialModel, expect_no_dropout
from nextword.experiments.comparison.preflight import build_method, most_layers, needed_encoder
from nextword.experiments.reproduction.planning.experiment_work import (
    START,
    ExperimentWork,
    PlannedTraining,
    RowLength,
    zipf_counts,
)
from nextword.experiments.reproduction.planning.training_time import StepCost, training_memory
from nextword.experiments.training.collator import distinct_texts, encode_texts, is_encodable
from nextword.experiments.training.cost import MIB
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.trainable import SMALLER, free_to_train
from nextword.heads import parse_head
from nextword.heads.head import FITTED
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.states import StatesSettings, build_states
from nextword.model.stored_states.state_files import TokenRow
from nextword.model.stored_states.stored_backbone import StoredBackbone
from nextword.objectives import parse_objective
from nextword.runtime.devices import best_device

UNTIMED = 2
"""Number of untimed steps: the first is a warm-up; on a CPU, memory is recorded during the second."""
SECONDS, MOST = 2.0, 20
"""At least one further step is timed, until this many seconds or steps have passed; the median is used."""

TAKE_TIME = (
    "batch_size", "gradient_accumulation_steps", "consecutive", "alike", "bf16", "fp16", "weights",
    "activation_checkpointing", "fsdp", "shard_vocabulary", "trains", "freeze_output_embeddings", "lora",
)  # fmt: skip
"""Training settings on which the time or memory of a step depends."""

FEW_STEPS: dict[str, Any] = {
    "steps": UNTIMED + MOST, "epochs": None, "save_every": None, "evaluate_every": None, "keep_best": False,
    "patience": None, "report_to": [], "learning_rate": 1e-9, "learning_rates": {},  # nothing diverges
}  # fmt: skip
"""Settings of a timed training that override its own."""

INTERRUPTED = "not timed, because of an interruption"


class StepsHere:
    """Times the first steps of trainings on this machine, once per kind of training, and passes reports to ``say``."""

    told = "this machine, a few steps of each kind of training; evaluation and generation take additional time"

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._known: dict[str, StepCost] = {}
        self._beginnings: dict[int, _Begun] = {}
        self.interrupted = False
        """Whether Ctrl-C ended the measurements; earlier results are kept."""

    def cost(self, training: PlannedTraining, work: ExperimentWork) -> StepCost:
        """The seconds and memory of one step, or the reason why it could not be timed."""
        if work.lacks:
            return StepCost(reason=f"not measured: {work.lacks}")
        if self.interrupted:
            return StepCost(reason=INTERRUPTED)
        kind = kind_of(training, work)
        if kind not in self._known:
            try:
                self._known[kind] = self._tried(training, work)
            except KeyboardInterrupt:
                self.interrupted = True
                return StepCost(reason=INTERRUPTED)
        found = self._known[kind]
        if training.steps is not None or found.seconds is None:
            return found
        return StepCost(found.seconds, found.memory, steps=training.settings.steps_over(len(self._of(work).rows)))

    def _tried(self, training: PlannedTraining, work: ExperimentWork) -> StepCost:
        second = ", second training" if training.stage else ""
        self._say(f"timing {training.method.title}{second}, batches of {training.settings.batch_size} ...")
        try:
            with cpu_threads(work.config.threads):
                cost = _cost(training, work, self._of(work))
        except (MemoryError, torch.OutOfMemoryError):
            cost = StepCost(reason=f"does not fit into the memory; {SMALLER}")
        except (ValueError, RuntimeError) as problem:
            cost = StepCost(reason=f"cannot be timed: {next(iter(str(problem).splitlines()), type(problem).__name__)}")
        self._say(f"  {cost.reason or f'{cost.seconds:.2g} s a step, {(cost.memory or 0) / 1e9:.2f} GB'}")
        return cost

    def _of(self, work: ExperimentWork) -> _Begun:
        """The tokenizer and rows of an experiment, made once; those of the previous experiment are dropped."""
        if id(work) not in self._beginnings:
            self._beginnings.clear()
            self._beginnings[id(work)] = _Begun(work)
        return self._beginnings[id(work)]


def kind_of(training: PlannedTraining, work: ExperimentWork) -> str:
    """A key that is equal for trainings with the same cost per step: same initial checkpoint, data, shapes and batch.

    Floating-point settings of a head or objective (a temperature, a weight) do not change the cost and are ignored.
    """
    method, task, settings = training.method, work.task, plain(training.settings)
    head = parse_head(method.trained_head)
    begun = head.to_fine_tune() if work.config.is_fine_tuned(method) else head.as_published()
    parts = [
        None if work.backbone is None else work.backbone.to_json_string(),
        None if task is None else [task.name, task.data.describe()],
        None if work.length is None else work.length.tokens,
        method is START,  # whose rows may be others
        _without_fractions(begun.model_dump(mode="json")),
        _without_fractions(parse_objective(method.objectives[training.stage]).model_dump(mode="json")),
        method.conditioner,
        {name: settings[name] for name in TAKE_TIME},
    ]
    return json.dumps(parts, sort_keys=True)


def _without_fractions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_fractions(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_fractions(inner) for inner in value]
    return "a number" if isinstance(value, float) or value == FITTED else value


class _Begun:
    """The initial checkpoint of an experiment, made as in a comparison but without training a small one."""

    def __init__(self, work: ExperimentWork) -> None:
        config, task = work.origin
        assert task is not None  # of what is complete
        assert work.task is not None
        self._beginning = InitialModel(config, task)
        self._config = config
        self.rows: Any = work.task.data.training(self._beginning.tokenizer)

    def rows_of(self, training: PlannedTraining) -> Any:
        own = self._beginning.pretraining
        return own.dataset if training.method is START and own is not None else self.rows

    def backbone(self, rows: FewRows, scratch: Path, is_start: bool) -> Any:
        """What a training on these rows runs: the model, or its output layer over their stored states."""
        backbone = self._beginning.backbone()
        if self._config.states is None or is_start:
            return backbone
        expect_no_dropout(backbone)
        known = [TokenRow(tuple(rows[place]["input_ids"])) for place in range(len(rows))]
        settings = StatesSettings(layers=most_layers(self._config))
        build_states(OpenedModel.of(backbone, self._beginning.tokenizer), known, scratch, settings)
        return StoredBackbone.open(scratch, backbone.dtype)


def _cost(training: PlannedTraining, work: ExperimentWork, beginning: _Begun) -> StepCost:
    task, settings, method = work.task, training.settings, training.method
    assert task is not None  # of what is complete
    assert work.backbone is not None
    is_start, is_stored = method is START, work.config.states is not None and method is not START
    steps = 1 if is_stored else UNTIMED + MOST  # the states of one batch are enough, read again in each step
    count = steps * settings.batch_size * settings.gradient_accumulation_steps
    rows = FewRows(beginning.rows_of(training), count)
    parts = ("input_ids", "labels") if task.architecture.has_encoder else ("input_ids",)  # source and target
    longest = max(sum(len(rows[place][part]) for part in parts) for place in range(len(rows)))
    needed = training_memory(work.sizes[method.title], work.backbone, settings, RowLength(longest, "about"))
    free = free_to_train()
    if free is not None and needed > free and not is_stored:
        reason = f"does not fit into memory: needs about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free; {SMALLER}"
        return StepCost(reason=reason)
    with tempfile.TemporaryDirectory() as scratch:
        backbone = beginning.backbone(rows, Path(scratch) / "states", is_start)
        vocabulary = backbone.config.get_text_config(decoder=True).vocab_size
        counts = zipf_counts(vocabulary, Path(scratch) / "counts.npz")
        encoder = needed_encoder([method], task)
        objective, pretrained = method.objectives[training.stage], work.config.is_fine_tuned(method)
        model = build_method(backbone, method, objective, encoder, counts, pretrained)
        encoded = None
        if is_encodable(model):
            encoded = encode_texts(model.to(best_device()), distinct_texts([rows]), lambda share: None)
        tried = settings.model_copy(update=FEW_STEPS)
        place, stop = Path(scratch) / "training", _Enough()
        cost = fit(model.train(), rows, tried, seed=0, folder=place, encoded=encoded, progress=stop).cost
    seconds = None if cost.ms_per_step is None else cost.ms_per_step / 1000
    return StepCost(seconds, None if cost.peak_memory_mib is None else cost.peak_memory_mib * MIB)


class _Enough(TrainerCallback):
    """Callback that ends a training when enough steps were timed."""

    def __init__(self) -> None:
        self._since = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        now = time.perf_counter()
        if state.global_step <= UNTIMED:
            self._since = now
        elif now - self._since >= SECONDS:
            control.should_training_stop = True


class FewRows:
    """At most ``count`` random rows of the data set ``rows``: the same in every call."""

    def __init__(self, rows: Any, count: int) -> None:
        self._rows = rows
        self._places = random.Random(0).sample(range(len(rows)), min(count, len(rows)))
        self.column_names: Sequence[str] = rows.column_names

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: int) -> Any:
        return self._rows[self._places[place]]

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch to the underlying data set, if it has ``set_epoch``."""
        if hasattr(self._rows, "set_epoch"):
            self._rows.set_epoch(epoch)
