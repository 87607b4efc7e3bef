"""One shard: the states of some windows, computed and written by whoever is free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from nextword.functional.padding import padded
from nextword.inference.datastore.documents import DocumentWindow
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.model.training_modes import measuring
from nextword.retrieval.shard import finished, write_shard
from nextword.retrieval.store_manifest import ShardFacts


@dataclass(frozen=True)
class ShardTask:
    """Writes a shard, unless it is there.

    Attributes:
        folder: Of the store.
        number: Of the shard.
        windows: What it holds.
        precision: Of the keys.
        batch_size: Windows that go through the model together.
        told: Told after each batch how many keys of this shard are computed.
    """

    folder: Path
    number: int
    windows: list[DocumentWindow]
    precision: str
    batch_size: int
    told: Callable[[int], None] | None = None

    def __call__(self, opened: OpenedModel) -> ShardFacts:
        """What the shard says of itself."""
        there = finished(self.folder, self.number)
        if there is not None:
            return there
        keys = np.concatenate(states_of(opened, self.windows, self.batch_size, self.told))
        tokens = np.array([token for window in self.windows for token in window.ids[-window.stored :]])
        places = np.array(
            [(one.document, one.place + step) for one in self.windows for step in range(one.stored)], dtype=np.int64
        )
        return write_shard(self.folder, self.number, keys, tokens, places, self.precision)


def expect_decoder(opened: OpenedModel) -> None:
    """Raises ValueError where a model's states follow more than the text."""
    if opened.has_encoder or opened.model.conditioner is not None:
        raise ValueError(
            f"model: must be decoder-only and without a conditioner ('{opened.name}' given); states that follow a "
            "source cannot be looked up by another text"
        )


def states_of(
    opened: OpenedModel,
    windows: list[DocumentWindow],
    batch_size: int,
    told: Callable[[int], None] | None = None,
) -> list[Float[np.ndarray, "_ D"]]:
    """What the output layer reads before each stored token, window by window."""
    found: list[np.ndarray] = [np.empty(0)] * len(windows)
    done = 0
    order = sorted(range(len(windows)), key=lambda at: len(windows[at].ids))  # of like lengths: little padding
    with measuring(opened.model):
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            states = _states(opened, [windows[at].ids[:-1] for at in chosen])
            for row, at in zip(states, chosen, strict=True):
                length = len(windows[at].ids) - 1
                found[at] = row[length - windows[at].stored : length].float().cpu().numpy()
                done += windows[at].stored
            if told is not None:
                told(done)
    return found


def _states(opened: OpenedModel, rows: list[list[int]]) -> Float[Tensor, "B T D"]:
    model = opened.model
    ids, mask = (tensor.to(model.device) for tensor in padded(rows))
    states: Tensor = model.context({"input_ids": ids, "attention_mask": mask, "use_cache": False}).states
    return states.view(*ids.shape, -1)
