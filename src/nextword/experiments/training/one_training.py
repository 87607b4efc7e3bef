"""Train a model with ``transformers.Trainer``."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PrinterCallback, TrainerCallback

from nextword.experiments.tasks.task import architecture_of
from nextword.experiments.training.collator import Auxiliary, EncodedTexts, EpochSetter, FixedDataset, RightPadding
from nextword.experiments.training.cost import PeakMemory, StepClock
from nextword.experiments.training.learning_rates import GroupedTrainer, expect_trained
from nextword.experiments.training.loss_curve import (
    BestCheckpoint,
    DivergedError,
    EarlyStopping,
    LastStepLogger,
    RunningLoss,
    TrainingOutcome,
)
from nextword.experiments.training.resume import BEGINNING, IDENTITY, TrainingIdentity, last_complete_checkpoint
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.sharding import save_whole, shard, share_vocabulary
from nextword.experiments.training.trainable import expect_room, trainable, trained_modules
from nextword.experiments.training.trainer_arguments import expect_available, trainer_arguments
from nextword.experiments.training.trainers import Bm25BatchTrainer, ConsecutiveTrainer
from nextword.model.stored_states.stored_backbone import StoredBackbone
from nextword.results.records import Cost, CurvePoint
from nextword.runtime import processes
from nextword.runtime.resumable import begin
from nextword.runtime.weights import convert

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)


def fit(
    model: PreTrainedModel,
    dataset: Any,
    settings: TrainingSettings,
    *,
    seed: int,
    folder: str | Path,
    validation: Any = None,
    encoded: EncodedTexts | None = None,
    progress: Callable[[float], None] | TrainerCallback | None = None,
) -> TrainingOutcome:
    """Train ``model`` in place. If it is sharded over processes, load it with ``whole_model`` afterwards.

    After an interruption, the same call resumes from the last complete checkpoint in ``folder``. On a CPU the weights
    are then bitwise equal to those of a training without interruption.

    Args:
        model: A model of nextword or transformers, decoder-only or encoder-decoder, whose ``forward`` takes labels.
        dataset: Columns ``input_ids`` and ``labels`` of any length, and ``aux_input_ids`` for a model with a
            conditioner; see ``nextword.experiments.tasks.Data``. If it has a method ``set_epoch``, this method is
            called before each epoch.
        settings: Training settings.
        seed: Seed of batch order and dropout. The order does not depend on the model, so every method has the same
            batches.
        folder: Folder for checkpoints.
        validation: Validation data in the format of ``dataset``; needed with ``settings.evaluate_every``.
        encoded: States of auxiliary texts from the model's frozen encoder.
        progress: Function that receives the share of finished steps, or a Trainer callback.

    Raises:
        ValueError: If the data is empty or lacks a column, the settings do not fit the model or need data, a package or
            a device that is not available, or ``folder`` has the checkpoints of another training.
        DivergedError: If the loss of a step is NaN or infinite.
    """
    folder = Path(folder)
    asked = {"dataset": dataset, "settings": settings, "seed": seed, "folder": folder}
    asked |= {"validation": validation, "encoded": encoded}
    expect_available(settings)
    if settings.weights == "bfloat16":
        convert(model, torch.bfloat16, folder if settings.fsdp else None)
    if processes.count() > 1:
        model.save_pretrained(folder / BEGINNING)
    with processes.together(asked | {"kind": type(model)}, DivergedError):
        return _fit(model, **asked, progress=progress)


def fit_with_main() -> None:
    """Take part in every training of the main process until that process ends. Secondary processes call this."""
    for asked in processes.received():
        model = asked.pop("kind").from_pretrained(asked["folder"] / BEGINNING).train()
        with contextlib.suppress(DivergedError):  # the main process reports it
            _fit(model, **asked, progress=None)


def _fit(
    model: PreTrainedModel,
    dataset: Any,
    settings: TrainingSettings,
    seed: int,
    folder: Path,
    validation: Any,
    encoded: EncodedTexts | None,
    progress: Callable[[float], None] | TrainerCallback | None,
) -> TrainingOutcome:
    # every process calls this function
    collator = batch_collator(model, encoded)
    _check_data(dataset, settings, validation, collator)
    clock, memory = StepClock(), PeakMemory()
    parameters = sum(parameter.numel() for parameter in model.parameters())  # counts a tied parameter once
    identity = TrainingIdentity.of(model, settings, seed)
    with trainable(model, settings, seed), _use_cache_kept(model.config):
        expect_trained(settings.learning_rates, model)
        expect_room(model, settings)
        if processes.is_main():
            begin(folder / IDENTITY, identity, "training")
        if settings.fsdp:
            shard(model)
        elif settings.shard_vocabulary:
            share_vocabulary(model)
        kind = ConsecutiveTrainer if settings.consecutive else Bm25BatchTrainer if settings.alike else GroupedTrainer
        watched = FixedDataset(validation) if hasattr(validation, "set_epoch") else validation
        trainer = kind(
            settings.learning_rates,
            model=model,
            args=trainer_arguments(settings, seed, folder),
            data_collator=collator,
            train_dataset=dataset,
            eval_dataset=watched if settings.evaluate_every else None,
            callbacks=[clock, memory, LastStepLogger(), *_callbacks_for(dataset, settings, folder, progress)],
        )
        trainer.remove_callback(PrinterCallback)  # without a progress bar, it would print every log entry
        trainer.add_callback(RunningLoss(trainer))
        trained = trained_modules(model)
        try:
            best = _run(trainer, settings, folder)
        finally:
            memory.stop_recording()
        if settings.fsdp or settings.shard_vocabulary:
            save_whole(model, folder)
    return TrainingOutcome(
        curve=curve_of(trainer.state.log_history, "loss"),
        validation_curve=curve_of(trainer.state.log_history, "eval_loss"),
        best_step=best,
        cost=Cost(
            parameters=parameters,
            trained_parameters=sum(trained.values()),
            trained=trained,
            ms_per_step=clock.median_ms,
            peak_memory_mib=memory.mib,
            train_seconds=clock.total,
        ),
    )


def _run(trainer: GroupedTrainer, settings: TrainingSettings, folder: Path) -> int | None:
    # trains to the end, from the last checkpoint; returns the step of the best weights if these are kept
    checkpoint = last_complete_checkpoint(folder) if settings.checkpoint_every else None
    if checkpoint is not None:
        logger.info("resuming from %s", checkpoint)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    best = trainer.state.best_global_step if settings.keep_best else None
    if best is not None and best != trainer.state.global_step:
        trainer._load_from_checkpoint(str(folder / f"checkpoint-{best}"))
    return best


@contextlib.contextmanager
def _use_cache_kept(config: Any) -> Iterator[None]:
    # Trainer changes use_cache in a model's configuration, and does not restore it
    before = dict(vars(config))
    try:
        yield
    finally:
        if "use_cache" in before:
            config.use_cache = before["use_cache"]
        else:
            vars(config).pop("use_cache", None)  # a nextword model reads this setting from its backbone


def _callbacks_for(
    dataset: Any, settings: TrainingSettings, folder: Path, progress: Callable[[float], None] | TrainerCallback | None
) -> list[TrainerCallback]:
    callbacks: list[TrainerCallback] = [EpochSetter(dataset)] if hasattr(dataset, "set_epoch") else []
    if settings.keep_best:
        callbacks.append(BestCheckpoint(folder))
    if settings.patience is not None:
        callbacks.append(EarlyStopping(settings.patience, settings.min_improvement))
    if progress is not None:
        callbacks.append(progress if isinstance(progress, TrainerCallback) else _StepProgress(progress))
    return callbacks


class _StepProgress(TrainerCallback):
    def __init__(self, progress: Callable[[float], None]) -> None:
        self._progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._progress(state.global_step / state.max_steps)


def _check_data(dataset: Any, settings: TrainingSettings, validation: Any, collator: RightPadding) -> None:
    needed = ["input_ids", "labels", *(collator.auxiliary.columns if collator.auxiliary is not None else [])]
    if not set(needed) <= set(dataset.column_names):
        all_but_one = ", ".join(needed[:-1])
        raise ValueError(
            f"training data needs columns {all_but_one} and {needed[-1]}, has {', '.join(dataset.column_names)}"
        )
    if len(dataset) == 0:
        raise ValueError("training data is empty")
    if settings.evaluate_every and validation is None:
        raise ValueError("evaluate_every: needs validation data, and none is given; leave it out, or give some")


def curve_of(log: list[dict[str, Any]], key: str) -> list[CurvePoint]:
    """The losses under ``key`` (``loss`` in training, ``eval_loss`` in validation) from Trainer's log."""
    return [CurvePoint(step=int(entry["step"]), loss=float(entry[key])) for entry in log if key in entry]


def batch_collator(model: PreTrainedModel, encoded: EncodedTexts | None = None) -> RightPadding:
    """The collator with which ``fit`` makes batches for ``model``. ``encoded`` is the argument of ``fit``."""
    conditioned = getattr(model, "conditioner", None) is not None
    head: Any = getattr(model, "next_word_head", None)
    has_encoder = architecture_of(model.config).has_encoder
    return RightPadding(
        getattr(model.config.get_text_config(decoder=True), "pad_token_id", None) or 0,
        aligned=not has_encoder,
        decoder_mask=has_encoder and isinstance(getattr(model, "backbone", None), StoredBackbone),
        without_logits="return_logits" in inspect.signature(model.forward).parameters,
        auxiliary=Auxiliary(source=head.reads_source, encoded=encoded) if conditioned else None,
    )
