"""The folder of one training: its files, the settings that identify it, and whether it is finished.

```
config.json, *.safetensors, tokenizer files, README.md     the model, written by ``nextword.model.saving``
record.json                                                settings, measurements and cost; the last file to be written
training/run.json                                          settings that identify the training; another training raises
                                                           an error
training/tokenizer/, training/counts.npz                   if the model is a new small one, or a head needs counts
training/training.json, training/checkpoint-*/             identity and checkpoints; a finished training deletes these
training/outcome.json                                      curves and cost
```
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nextword.experiments.training.method_settings import with_task_table
from nextword.experiments.training.resume import (
    IDENTITY,
    TrainingIdentity,
    drop_checkpoints,
    weights_problem,
)
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.train_config import TrainConfig
from nextword.results.records.comparison_results import TrainingResults
from nextword.runtime.resumable import ResumableFolder, expect_same, set_ones

MANIFEST, RECORD = "run.json", "record.json"
MAY_CHANGE = ("nextword", "keep_checkpoints")
"""Keys of ``run.json`` that do not affect the model."""
FILES = "files"
"""Key of ``run.json`` with the description of the data, such as checksums, which shows whether a file has changed."""


class RunFolder(ResumableFolder):
    """Paths and state of a training's folder."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "training", f"training/{MANIFEST}", [f"training/{IDENTITY}", RECORD])
        self.training = self.path / "training"
        """Folder of the checkpoints and of files that are needed only for training."""
        self.record = self.path / RECORD
        """The record. It exists once the training is finished."""

    def expect(self, config: TrainConfig, files: Mapping[str, Any] | None = None) -> None:
        """Check that the folder is empty or belongs to the training with ``config``. Nothing is written.

        ``files`` is the description of the data, with checksums. None: the data has not been read yet.

        Raises:
            ValueError: If the folder belongs to another training (the message names the difference) or has other files.
        """
        begun = self.begun()
        if begun is not None:
            manifest = with_task_table(begun)
            may_change = MAY_CHANGE if files is not None and FILES in manifest else (*MAY_CHANGE, FILES)
            asked = set_ones({**config.model_dump(mode="json"), FILES: files})
            expect_same(self.path, self.kind, set_ones(manifest), asked, lambda key: key.split(".")[0] in may_change)

    def begin(self, config: TrainConfig, files: Mapping[str, Any]) -> None:
        """Check the folder as ``expect`` does. If no training has begun, empty ``training/`` and write ``run.json``."""
        self.expect(config, files)
        if not self.has_begun:
            shutil.rmtree(self.training, ignore_errors=True)
            self.write_manifest({**config.model_dump(mode="json"), FILES: dict(files)})

    def begun_settings(self) -> TrainingSettings | None:
        """Settings with which the training began, possibly in an earlier version of nextword; None before it began."""
        path = self.training / IDENTITY
        return TrainingIdentity.load(path).settings if path.exists() else None

    def begun_with_raw_states(self) -> bool:
        """Whether the training began in an earlier version, in which ``+mi`` did not normalise hidden states."""
        path = self.training / IDENTITY
        head = str(TrainingIdentity.load(path).model.get("head")) if path.exists() else ""
        return "'mi': {" in head and "'normalize'" not in head

    def finished(self) -> TrainingResults | None:
        """The record if the training is finished, otherwise None.

        Raises:
            ValueError: If the record cannot be read, or the model's weight files are missing or cannot be read.
        """
        if not self.record.exists():
            return None
        results = TrainingResults.load(self.record)
        problem = weights_problem(self.path)
        if problem is not None:
            raise ValueError(f"{self.path}: is finished by its {RECORD}, but has {problem}; delete it to train again")
        return results

    def drop_checkpoints(self) -> None:
        """Delete the checkpoints and temporary models, which a finished training no longer needs."""
        drop_checkpoints(self.training)

    def checkpoints(self) -> list[str]:
        """Names of the checkpoints, oldest first."""
        found = self.training.glob("checkpoint-*")
        return sorted((path.name for path in found), key=lambda name: int(name.rpartition("-")[2]))
