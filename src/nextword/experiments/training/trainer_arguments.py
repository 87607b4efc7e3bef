"""Convert our settings to arguments of ``transformers.Trainer``, and check required packages and devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.trainable import expect_peft
from nextword.runtime import processes
from nextword.runtime.optional_libraries import install, missing
from nextword.settings.registry import did_you_mean


def trainer_arguments(settings: TrainingSettings, seed: int, folder: Path) -> TrainingArguments:
    """``settings`` as arguments of ``Trainer``, for one training with checkpoints in ``folder``."""
    on_cpu = not torch.accelerator.is_available()
    # older versions that pyproject.toml allows know only the old name; newer versions warn about it
    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    name = "activation_checkpointing" if "activation_checkpointing" in known else "gradient_checkpointing"
    further: dict[str, Any] = {name: settings.activation_checkpointing or None}
    if settings.keep_best:
        further |= {"metric_for_best_model": "eval_loss", "greater_is_better": False}
    if settings.fsdp:
        # ``shard`` has already sharded the model; every process writes its part of a checkpoint
        sharded = {"auto_wrap_policy": "NO_WRAP", "state_dict_type": "SHARDED_STATE_DICT"}
        further |= {"fsdp": True, "fsdp_config": sharded}
    return TrainingArguments(
        **further,
        output_dir=str(folder),
        max_steps=settings.steps or -1,
        num_train_epochs=settings.epochs or 1.0,
        per_device_train_batch_size=rows_of_each_process(settings),
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        lr_scheduler_type=settings.scheduler,
        warmup_steps=settings.warmup_ratio or settings.warmup_steps,  # in transformers 5, a value below 1 is a share
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.bf16,
        fp16=settings.fp16,
        logging_steps=settings.log_every,
        logging_first_step=True,
        logging_nan_inf_filter=False,  # a NaN loss must be visible; by default Trainer logs the mean instead
        eval_strategy="steps" if settings.evaluate_every else "no",
        eval_steps=settings.evaluate_every,
        prediction_loss_only=True,
        save_strategy="steps" if settings.checkpoint_every else "no",
        save_steps=settings.checkpoint_every or 500,
        save_total_limit=2,  # one more than needed, because the newest may be incomplete
        report_to=list(settings.report_to),
        disable_tqdm=True,
        remove_unused_columns=False,  # the collator selects the columns
        dataloader_num_workers=settings.dataloader_workers,
        dataloader_pin_memory=not on_cpu,
        use_cpu=on_cpu,
        seed=seed,
        data_seed=seed,
    )


def rows_of_each_process(settings: TrainingSettings) -> int:
    """Rows of a batch in each process. ValueError if a batch is divided among processes, but not into equal parts."""
    if settings.shard_vocabulary:
        return settings.batch_size
    each, rest = divmod(settings.batch_size, processes.count())
    if rest:
        raise ValueError(
            f"training.batch_size: must be a multiple of the {processes.count()} processes that share a batch "
            f"({settings.batch_size} given), so that the result does not depend on the number of processes; change it"
        )
    return each


def expect_available(settings: TrainingSettings) -> None:
    """Raise ValueError if the settings need a package or device that is not available."""
    if missing(["accelerate"]):
        raise ValueError(f"training: needs accelerate, which is not installed; {install('experiments')}")
    rows_of_each_process(settings)
    lacking = {"fsdp": not processes.launched(), "shard_vocabulary": processes.count() == 1}
    for name, lacks in lacking.items():
        if getattr(settings, name) and lacks:
            raise ValueError(
                f"training.{name}: must have several processes (1 running); start with torchrun --nproc-per-node N "
                f"-m nextword ..., or leave it out"
            )
    if settings.lora is not None:
        expect_peft()
    if settings.fp16 and not torch.cuda.is_available():
        raise ValueError("training.fp16: needs a GPU (none found); use bf16, which works on a CPU too")
    expect_trackers(settings.report_to)


def expect_trackers(names: Sequence[str]) -> None:
    """Raise ValueError if a tracker in ``names`` is unknown to transformers or its package is not installed."""
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            near, known = did_you_mean(name, INTEGRATION_TO_CALLBACK), ", ".join(INTEGRATION_TO_CALLBACK)
            raise ValueError(f"training.report_to: must name known trackers ('{name}' given).{near} Known: {known}.")
        try:
            INTEGRATION_TO_CALLBACK[name]()  # raises an error if its package is not installed
        except (RuntimeError, ImportError) as lack:
            reason = " ".join(str(lack).split())
            raise ValueError(f"training.report_to: '{name}' cannot be used here ({reason})") from None
