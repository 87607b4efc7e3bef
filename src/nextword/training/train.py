"""Trains one model with ``transformers.Trainer``, resumes it where it was interrupted, and says what it cost."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field, JsonValue
from transformers import PrinterCallback, TrainingArguments

from nextword.records import Cost, CurvePoint, Record
from nextword.tasks.parts.architecture import architecture_of
from nextword.training.collator import Auxiliary, RightPadding
from nextword.training.cost import Fraction, LastPoint, PeakMemory, RunningLoss, StepClock
from nextword.training.encoded_texts import EncodedTexts
from nextword.training.epochs import TellEpoch, Unchanging
from nextword.training.learning_rates import GroupedTrainer, expect_trained
from nextword.training.resume import last_complete
from nextword.training.settings import TrainingSettings
from nextword.training.trainable import trainable, trained_modules

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

IDENTITY = "training.json"
"""File in a training's folder that says whose checkpoints these are."""


class TrainingOutcome(Record):
    """What a finished training says about itself."""

    curve: list[CurvePoint]
    """Training loss, nats per token, each point the mean since the one before."""
    validation_curve: list[CurvePoint] = Field(default=[])
    """Validation loss, nats per token, as Trainer averages it (over batches); empty without ``evaluate_every``."""
    cost: Cost
    """Parameters, time and memory; see docs/compare.md for what each number means."""

    def followed_by(self, later: TrainingOutcome) -> TrainingOutcome:
        """This training and another of the same model after it, as one.

        Steps go on counting, seconds add up, memory is the higher peak, and the time of a step is the mean of both by
        their numbers of steps.
        """
        steps = [outcome.curve[-1].step if outcome.curve else 0 for outcome in (self, later)]
        costs = [self.cost, later.cost]
        seconds = [cost.train_seconds for cost in costs if cost.train_seconds is not None]
        peaks = [cost.peak_memory_mib for cost in costs if cost.peak_memory_mib is not None]
        timed = [(cost.ms_per_step, n) for cost, n in zip(costs, steps, strict=True) if cost.ms_per_step is not None]
        counted = sum(n for _, n in timed)
        cost = later.cost.model_copy(
            update={
                "trained_parameters": max(cost.trained_parameters for cost in costs),
                "trained": self.cost.trained | later.cost.trained,
                "train_seconds": sum(seconds) if seconds else None,
                "peak_memory_mib": max(peaks, default=None),
                "ms_per_step": sum(ms * n for ms, n in timed) / counted if counted else None,
            }
        )
        return TrainingOutcome(
            curve=[*self.curve, *_later(later.curve, steps[0])],
            validation_curve=[*self.validation_curve, *_later(later.validation_curve, steps[0])],
            cost=cost,
        )


def _later(curve: list[CurvePoint], steps: int) -> list[CurvePoint]:
    return [CurvePoint(step=steps + point.step, loss=point.loss) for point in curve]


class _Identity(Record):
    """What must be the same for checkpoints to be continued."""

    seed: int
    """Order of the batches and dropout."""
    settings: TrainingSettings
    """How it is trained."""
    model: dict[str, JsonValue]
    """Class, head and shapes."""


def train(
    model: PreTrainedModel,
    dataset: Any,
    settings: TrainingSettings,
    *,
    seed: int,
    folder: str | Path,
    validation: Any = None,
    encoded: EncodedTexts | None = None,
    progress: Callable[[float], None] | None = None,
) -> TrainingOutcome:
    """Trains ``model`` in place.

    Called again with the same folder after an interruption, it goes on from the last complete checkpoint.

    Args:
        model: A model with labels in its ``forward``, ours or any of transformers, decoder-only or encoder-decoder.
        dataset: Columns ``input_ids`` and ``labels`` of any length, and ``aux_input_ids`` for a model with a
            conditioner; see ``Task.training``. Where it has ``set_epoch``, that is called before each epoch.
        settings: How to train.
        seed: Order of the batches and dropout. It does not depend on the model, so every method sees the same batches.
        folder: Where checkpoints are kept.
        validation: Like ``dataset``; needed with ``settings.evaluate_every``.
        encoded: States of auxiliary texts, made by the model's own encoder, which training must leave as it is.
        progress: Called with the share of steps that are done.

    Raises:
        ValueError: The data cannot be trained on, or ``folder`` holds checkpoints of another training.
        DivergedError: The loss of a step is NaN or infinite.
    """
    folder = Path(folder)
    collator = _collator(model, encoded)
    _check_data(dataset, settings, validation, collator)
    clock, memory = StepClock(), PeakMemory()
    own_epochs = [TellEpoch(dataset)] if hasattr(dataset, "set_epoch") else []
    parameters = sum(parameter.numel() for parameter in model.parameters())  # a tied parameter is listed once
    identity = _Identity(seed=seed, settings=settings, model=_described(model))
    with trainable(model, settings, seed):
        expect_trained(settings.learning_rates, model)
        _claim(folder, identity)
        trainer = GroupedTrainer(
            settings.learning_rates,
            model=model,
            args=_arguments(settings, seed, folder),
            data_collator=collator,
            train_dataset=dataset,
            eval_dataset=_unchanging(validation) if settings.evaluate_every else None,
            callbacks=[clock, memory, LastPoint(), *own_epochs, *([Fraction(progress)] if progress else [])],
        )
        trainer.remove_callback(PrinterCallback)  # it prints every log entry where the progress bar is off
        trainer.add_callback(RunningLoss(trainer))
        trained = trained_modules(model)
        try:
            trainer.train(resume_from_checkpoint=_resume_from(folder, settings))
        finally:
            memory.stop_recording()
    return TrainingOutcome(
        curve=_curve(trainer.state.log_history, "loss"),
        validation_curve=_curve(trainer.state.log_history, "eval_loss"),
        cost=Cost(
            parameters=parameters,
            trained_parameters=sum(trained.values()),
            trained=trained,
            ms_per_step=clock.median_ms,
            peak_memory_mib=memory.mib,
            train_seconds=clock.total,
        ),
    )


def _arguments(settings: TrainingSettings, seed: int, folder: Path) -> TrainingArguments:
    on_cpu = not torch.accelerator.is_available()
    # the older versions that pyproject.toml allows have the other name only, the newer ones warn of it
    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    name = "activation_checkpointing" if "activation_checkpointing" in known else "gradient_checkpointing"
    checkpointing: dict[str, Any] = {name: settings.activation_checkpointing or None}
    return TrainingArguments(
        **checkpointing,
        output_dir=str(folder),
        max_steps=settings.steps or -1,
        num_train_epochs=settings.epochs or 1.0,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        lr_scheduler_type=settings.scheduler,
        warmup_steps=settings.warmup_ratio or settings.warmup_steps,  # below 1 it is a share, says transformers 5
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.bf16,
        logging_steps=settings.log_every,
        logging_first_step=True,
        logging_nan_inf_filter=False,  # a loss that is not finite must be seen, not replaced by the mean
        eval_strategy="steps" if settings.evaluate_every else "no",
        eval_steps=settings.evaluate_every,
        prediction_loss_only=True,
        save_strategy="steps" if settings.save_every else "no",
        save_steps=settings.save_every or 500,
        save_total_limit=2,  # one more than needed, for when the newest is cut off in the middle
        report_to=list(settings.report_to),
        disable_tqdm=True,
        remove_unused_columns=False,  # the collator takes what it needs
        dataloader_num_workers=settings.dataloader_workers,
        dataloader_pin_memory=not on_cpu,
        use_cpu=on_cpu,
        seed=seed,
        data_seed=seed,
    )


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


def _unchanging(validation: Any) -> Any:
    return Unchanging(validation) if hasattr(validation, "set_epoch") else validation


def _claim(folder: Path, identity: _Identity) -> None:
    path = folder / IDENTITY
    if path.exists():
        try:
            found = _Identity.load(path)
        except ValueError:
            found = None
        if found != identity:
            raise ValueError(
                f"{folder} holds a training with other settings ({_difference(found, identity)}); "
                "delete it or choose another folder"
            )
        return
    identity.save(path)


def _difference(found: _Identity | None, wanted: _Identity) -> str:
    if found is None:
        return f"{IDENTITY} cannot be read"
    before, now = found.model_dump(), wanted.model_dump()
    before, now = {**before.pop("settings"), **before}, {**now.pop("settings"), **now}
    return ", ".join(f"{key}: {before[key]} there, {now[key]} asked" for key in now if before.get(key) != now[key])


def _described(model: PreTrainedModel) -> dict[str, JsonValue]:
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    head, objective, conditioner = (getattr(model.config, part, None) for part in ("head", "objective", "conditioner"))
    return {
        "class": type(model).__name__,
        "head": _without_paths(head),
        "objective": _without_paths(objective),
        "parameters": len(shapes),
        "first": next(iter(shapes), ""),
        **({"conditioner": str(conditioner)} if conditioner else {}),
    }


def _without_paths(settings: Any) -> str:
    """Settings as text; a counts file may have moved with its folder, and what it says is in the weights' shapes."""
    if isinstance(settings, dict):
        settings = {key: value for key, value in settings.items() if key != "counts"}
    return str(settings)


def _resume_from(folder: Path, settings: TrainingSettings) -> str | None:
    checkpoint = last_complete(folder) if settings.save_every else None
    if checkpoint is not None:
        logger.info("resuming from %s", checkpoint)
    return str(checkpoint) if checkpoint else None


def _curve(log: list[dict[str, Any]], key: str) -> list[CurvePoint]:
    return [CurvePoint(step=int(entry["step"]), loss=float(entry[key])) for entry in log if key in entry]


def _collator(model: PreTrainedModel, encoded: EncodedTexts | None) -> RightPadding:
    conditioned = getattr(model, "conditioner", None) is not None
    head: Any = getattr(model, "next_word_head", None)
    return RightPadding(
        _pad_id(model),
        aligned=not architecture_of(model.config).has_encoder,
        without_logits=_can_leave_logits_out(model),
        auxiliary=Auxiliary(source=head.reads_source, encoded=encoded) if conditioned else None,
    )


def _pad_id(model: PreTrainedModel) -> int:
    pad = getattr(model.config.get_text_config(decoder=True), "pad_token_id", None)
    return int(pad) if pad is not None else 0


def _can_leave_logits_out(model: PreTrainedModel) -> bool:
    return "return_logits" in inspect.signature(model.forward).parameters
