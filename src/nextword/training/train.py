"""One training from data to outcome, with ``transformers.Trainer``."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PrinterCallback, TrainerCallback, TrainingArguments

from nextword.records import Cost, CurvePoint
from nextword.tasks.parts.architecture import architecture_of
from nextword.training.collator import Auxiliary, RightPadding
from nextword.training.cost import PeakMemory, StepClock
from nextword.training.encoded_texts import EncodedTexts
from nextword.training.epochs import EpochSetter, FixedDataset
from nextword.training.learning_rates import GroupedTrainer, expect_trained
from nextword.training.loss_curve import LastStepLogger, RunningLoss
from nextword.training.outcome import TrainingOutcome
from nextword.training.resume import TrainingIdentity, claim_folder, last_complete_checkpoint
from nextword.training.settings import TrainingSettings
from nextword.training.trainable import trainable, trained_modules

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)


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
            conditioner; see ``nextword.tasks.Data``. Where it has ``set_epoch``, that is called before each epoch.
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
    parameters = sum(parameter.numel() for parameter in model.parameters())  # a tied parameter is listed once
    identity = TrainingIdentity.of(model, settings, seed)
    with trainable(model, settings, seed):
        expect_trained(settings.learning_rates, model)
        claim_folder(folder, identity)
        trainer = GroupedTrainer(
            settings.learning_rates,
            model=model,
            args=_arguments(settings, seed, folder),
            data_collator=collator,
            train_dataset=dataset,
            eval_dataset=_without_epochs(validation) if settings.evaluate_every else None,
            callbacks=[clock, memory, LastStepLogger(), *_callbacks_for(dataset, progress)],
        )
        trainer.remove_callback(PrinterCallback)  # it prints every log entry where the progress bar is off
        trainer.add_callback(RunningLoss(trainer))
        trained = trained_modules(model)
        checkpoint = last_complete_checkpoint(folder) if settings.save_every else None
        if checkpoint is not None:
            logger.info("resuming from %s", checkpoint)
        try:
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
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


def _callbacks_for(dataset: Any, progress: Callable[[float], None] | None) -> list[TrainerCallback]:
    """Those for data that changes with the epoch, and for a caller who wants to know how far it is."""
    epochs = [EpochSetter(dataset)] if hasattr(dataset, "set_epoch") else []
    return [*epochs, *([_StepProgress(progress)] if progress else [])]


class _StepProgress(TrainerCallback):
    """Passes on the share of steps that are done, from 0 to 1."""

    def __init__(self, progress: Callable[[float], None]) -> None:
        self._progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """One more step is done."""
        self._progress(state.global_step / state.max_steps)


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


def _without_epochs(validation: Any) -> Any:
    return FixedDataset(validation) if hasattr(validation, "set_epoch") else validation


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
