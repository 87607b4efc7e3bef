"""Resume an interrupted training: identify the training of a folder, and find its last complete checkpoint."""

from __future__ import annotations

import json
import logging
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import JsonValue
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from nextword.experiments.training.settings import TrainingSettings
from nextword.results.records import Record

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

IDENTITY = "training.json"
"""File in a training's folder that identifies the training."""
BEGINNING = "beginning"
"""Subfolder with the initial model, for the secondary processes of a distributed training."""
WHOLE = "whole"
"""Subfolder with the gathered weights of a model that was sharded over processes."""
STATE = "trainer_state.json"
"""File that Trainer writes into each checkpoint."""

SHARDS = ("pytorch_model_fsdp_0", "optimizer_0")
"""Folders in the checkpoint of a sharded model, each with one file per process."""


class TrainingIdentity(Record):
    """Properties of a training. A training can resume only from checkpoints of a training with equal properties."""

    seed: int
    """Seed of batch order and dropout."""
    settings: TrainingSettings
    """Training settings."""
    model: dict[str, JsonValue]
    """Class, head, objective and conditioner of the model, number of its parameter tensors, and name of the first."""

    @classmethod
    def of(cls, model: PreTrainedModel, settings: TrainingSettings, seed: int) -> TrainingIdentity:
        """The identity of a training that is about to begin."""
        shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
        head, objective, conditioner = (
            getattr(model.config, one, None) for one in ("head", "objective", "conditioner")
        )
        facts: dict[str, JsonValue] = {
            "class": type(model).__name__,
            "head": _without_paths(head),
            "objective": _without_paths(objective),
            "parameters": len(shapes),
            "first": next(iter(shapes), ""),
        }
        return cls(
            seed=seed, settings=settings, model=facts | ({"conditioner": str(conditioner)} if conditioner else {})
        )


class StatefulCallback(TrainerCallback, ExportableState):
    """Callback whose attributes in ``checkpointed`` are saved in checkpoints and restored on resuming.

    Trainer itself would restore a callback as a new object. Code that holds the original would not see restored values.
    """

    checkpointed: ClassVar[tuple[str, ...]]

    def state(self) -> dict[str, Any]:
        """The state that Trainer writes into a checkpoint."""
        return {"args": {}, "attributes": {name: getattr(self, name) for name in self.checkpointed}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Restore the state from the checkpoint, if there is one."""
        # Trainer expects an entry when it saves, but a checkpoint of an earlier version may have none.
        stored = state.stateful_callbacks.setdefault(type(self).__name__, {})
        stored = stored[-1] if isinstance(stored, list) else stored
        if state.global_step:
            for name, value in stored.get("attributes", {}).items():
                setattr(self, name, value)


def _without_paths(settings: Any) -> str:
    # the path of a counts file may have changed with its folder, and the shapes of weights show what the file contains
    if isinstance(settings, dict):
        settings = {key: value for key, value in settings.items() if key != "counts"}
        mi = settings.get("mi")
        if isinstance(mi, dict) and not mi.get("normalize"):  # earlier versions had no normalisation and no such key
            settings["mi"] = {key: value for key, value in mi.items() if key != "normalize"}
    return str(settings)


def last_complete_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint of ``transformers.Trainer`` in ``folder``, or ``None``.

    If a process is killed while it saves, the checkpoint is incomplete. Such a checkpoint is skipped with a warning.
    """
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=_step, reverse=True):
        problem = checkpoint_problem(checkpoint)
        if problem is None:
            return checkpoint
        logger.warning("%s is incomplete (%s) and is not used", checkpoint, problem)
    return None


def drop_checkpoints(folder: Path) -> None:
    """Delete the checkpoints and temporary models of a training in ``folder``."""
    for path in (*folder.glob("checkpoint-*"), folder / BEGINNING, folder / WHOLE):
        shutil.rmtree(path, ignore_errors=True)


def checkpoint_problem(checkpoint: Path) -> str | None:
    """The reason why a checkpoint cannot be used; ``None`` if it can be used."""
    if _step(checkpoint) < 0:
        return "its name has no step number"
    try:
        json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"no readable {STATE}"
    archives = ["scheduler.pt"]
    if (checkpoint / SHARDS[0]).is_dir():  # the model is sharded over processes; the file with metadata is written last
        for name in SHARDS:
            if not (checkpoint / name / ".metadata").is_file():
                return f"no readable {name}"
    else:
        problem = weights_problem(checkpoint)
        if problem is not None:
            return problem
        archives.insert(0, "optimizer.pt")
    for name in archives:  # a zip archive is complete if it has its table of contents, which is written last
        if not zipfile.is_zipfile(checkpoint / name):
            return f"no readable {name}"
    return None


def weights_problem(folder: Path) -> str | None:
    """The reason why the safetensors files in ``folder`` cannot be used; ``None`` if they can be used."""
    from safetensors import SafetensorError, safe_open

    names = {path.name for path in folder.glob("*.safetensors")}
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError):
            return f"no readable {index.name}"
    if not names:
        return "no weights"
    for name in sorted(names):
        try:
            with safe_open(folder / name, framework="pt"):  # checks that the file has the length given in its header
                pass
        except (OSError, SafetensorError):
            return f"no readable {name}"
    return None


def _step(checkpoint: Path) -> int:
    match = re.fullmatch(r"checkpoint-(\d+)", checkpoint.name)
    return int(match.group(1)) if match else -1
