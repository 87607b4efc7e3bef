"""Callbacks of ``transformers.Trainer`` whose numbers outlive an interruption."""

from __future__ import annotations

from typing import Any, ClassVar

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState


class StatefulCallback(TrainerCallback, ExportableState):
    """Its attributes named in ``checkpointed`` lie in every checkpoint, so that a resumed training has them.

    Trainer's own way to restore callbacks makes new objects, and who holds the first ones never sees them.
    """

    checkpointed: ClassVar[tuple[str, ...]]

    def state(self) -> dict[str, Any]:
        """What Trainer writes into a checkpoint."""
        return {"args": {}, "attributes": {name: getattr(self, name) for name in self.checkpointed}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Goes on from the checkpoint, where there is one."""
        # Trainer expects an entry when it saves; a checkpoint of an earlier version may have none.
        stored = state.stateful_callbacks.setdefault(type(self).__name__, {})
        stored = stored[-1] if isinstance(stored, list) else stored
        if state.global_step:
            for name, value in stored.get("attributes", {}).items():
                setattr(self, name, value)
