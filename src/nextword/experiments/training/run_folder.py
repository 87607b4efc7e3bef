"""The folder of one training: what lies where, whose it is, and whether it is finished.

```
config.json, *.safetensors, tokenizer files, README.md     the model, written by ``nextword.model.saving``
record.json                                                what was asked, measured and spent; written last of all
training/run.json                                          which training this is; the folder is refused to another one
training/tokenizer/, training/counts.npz                   made from the data, where the model is made here or a head
                                                           goes by counts
training/training.json, training/checkpoint-*/             of the training itself; checkpoints go when it is finished
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
"""Keys of a manifest that say nothing about the model."""
FILES = "files"
"""Key of what the data say of themselves, their checksum for instance: a file may be another one by now."""


class RunFolder(ResumableFolder):
    """Paths and completeness; knows no model."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "training", f"training/{MANIFEST}", [f"training/{IDENTITY}", RECORD])
        self.training = self.path / "training"
        """What is needed while training, and its checkpoints."""
        self.record = self.path / RECORD
        """What says that all is finished."""

    def expect(self, config: TrainConfig, files: Mapping[str, Any] | None = None) -> None:
        """Expects the folder to be free or this training's own; writes nothing.

        ``files`` is what its data say of themselves; None: they are not read yet.

        Raises:
            ValueError: The folder belongs to another training (says what differs) or holds other files.
        """
        begun = self.begun()
        if begun is not None:
            manifest = with_task_table(begun)
            may_change = MAY_CHANGE if files is not None and FILES in manifest else (*MAY_CHANGE, FILES)
            asked = set_ones({**config.model_dump(mode="json"), FILES: files})
            expect_same(self.path, self.kind, set_ones(manifest), asked, lambda key: key.split(".")[0] in may_change)

    def begin(self, config: TrainConfig, files: Mapping[str, Any]) -> None:
        """Makes the folder this training's own, as ``expect``; what one left that was never trained is deleted."""
        self.expect(config, files)
        if not self.has_begun:
            shutil.rmtree(self.training, ignore_errors=True)
            self.write_manifest({**config.model_dump(mode="json"), FILES: dict(files)})

    def begun_settings(self) -> TrainingSettings | None:
        """Settings that the training was begun with here, by an earlier version perhaps; None before it began."""
        path = self.training / IDENTITY
        return TrainingIdentity.load(path).settings if path.exists() else None

    def finished(self) -> TrainingResults | None:
        """The record, where the model is finished.

        Raises:
            ValueError: There is a record that cannot be read, or a model that is not the one it was written for.
        """
        if not self.record.exists():
            return None
        results = TrainingResults.load(self.record)
        problem = weights_problem(self.path)
        if problem is not None:
            raise ValueError(f"{self.path}: is finished by its {RECORD}, but has {problem}; delete it to train again")
        return results

    def drop_checkpoints(self) -> None:
        """Deletes what a finished training needs no more."""
        drop_checkpoints(self.training)

    def checkpoints(self) -> list[str]:
        """Names of the checkpoints, the newest last."""
        found = self.training.glob("checkpoint-*")
        return sorted((path.name for path in found), key=lambda name: int(name.rpartition("-")[2]))
