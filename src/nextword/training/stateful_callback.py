"""Callbacks of ``transformers.Trainer`` whose numbers outlive an interruption."""

from __future__ import annotations

from typing import Any, ClassVar

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState


class StatefulCallback(TrainerCallback, ExportableState):
    """A callback whose attributes named in :attr:`kept` lie in every checkpoint, so that a resumed training has them.

    Trainer's own way to restore callbacks makes new objects of them, of which whoever made the first knows nothing.
    """

    kept: ClassVar[tuple[str, ...]]

    def state(self) -> dict[str, Any]:
        """What Trainer writes into a checkpoint."""
        return {"args": {}, "attributes": {name: getattr(self, name) for name in self.kept}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Goes on from the checkpoint, where there is one."""
        # Trainer expects an entry when it saves; a checkpoint of an earlier version may have none.
        stored = state.stateful_callbacks.setdefault(type(self).__name__, {})
        stored = stored[-1] if isinstance(stored, list) else stored
        if state.global_step:
            for name, value in stored.get("attributes", {}).items():
                setattr(self, name, value)
