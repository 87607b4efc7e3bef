"""Checkpoints of unfinished calls of ``nw.score``, from which the next call resumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.block_sums import BlockSums
from nextword.runtime.resumable import ArrayCheckpoint

NAME = "score.partial.npz"


@dataclass(frozen=True, eq=False)
class ModelState:
    """The progress of scoring with one model.

    Attributes:
        model: Digest that identifies the model (see ``describe``).
        counted: Number of chunks of texts whose tokens have been counted.
        counts: Number of occurrences of each token id in these chunks.
        scored: Number of scored chunks.
        sums: Sums of the scored chunks; None before the first chunk is scored.
    """

    model: str
    counted: int = 0
    counts: Int[np.ndarray, "V"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    scored: int = 0
    sums: BlockSums | None = None

    def with_counts(self, ids: Int[np.ndarray, "K"], counts: Int[np.ndarray, "K"]) -> ModelState:
        """A new state with the counts of one more chunk. ``ids[i]`` occurs ``counts[i]`` times in the chunk."""
        found = np.zeros(max(len(self.counts), int(ids.max(initial=-1)) + 1), dtype=np.int64)
        found[: len(self.counts)] = self.counts
        found[ids] += counts
        return replace(self, counts=found, counted=self.counted + 1)

    def with_sums(self, sums: BlockSums) -> ModelState:
        """A new state with the sums of one more chunk."""
        assert self.sums is not None
        return replace(self, sums=self.sums.plus(sums), scored=self.scored + 1)


class ScoreCheckpoint(ArrayCheckpoint):
    """A file with the state of each model whose scoring has begun.

    ``path`` is the file; None: nothing is saved. ``settings`` are all values that affect the sums, except the models.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        super().__init__(path, "score", settings)
        self._states: list[ModelState] = self.load(_states) or []

    def of_model(self, place: int, identity: str, name: str) -> ModelState:
        """Returns the state of the model with index ``place`` in the list of models; a new state if it has none.

        Raises:
            ValueError: If the checkpoint has a model with another ``identity`` at this index.
        """
        if place == len(self._states):
            self._states.append(ModelState(identity))
        if self._states[place].model != identity:
            raise ValueError(
                f"{self.path}: must resume with the same models ('{name}', number {place + 1}, is another one now, or "
                "its weights were changed); give that one, or delete the file to begin again"
            )
        return self._states[place]

    def put(self, place: int, state: ModelState) -> None:
        """Replaces the state of the model with index ``place``. Saves all states at most every half minute."""
        self._states[place] = state
        if self.is_due:
            self.save_all()

    def save_all(self) -> None:
        """Saves all states, if a chunk has been counted or scored."""
        if not any(state.counted or state.scored for state in self._states):
            return
        models, arrays = [], {}
        for place, state in enumerate(self._states):
            rest = None if state.sums is None else state.sums.rest()
            models.append({"model": state.model, "counted": state.counted, "scored": state.scored, "sums": rest})
            arrays[f"{place}/counts"] = state.counts
            if state.sums is not None:
                arrays |= {f"{place}/{name}": one for name, one in state.sums.arrays().items()}
        self.save({"models": models}, arrays)


def _states(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[ModelState]:
    return [_state(place, one, arrays) for place, one in enumerate(about["models"])]


def _state(place: int, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ModelState:
    mine = {name.partition("/")[2]: one for name, one in arrays.items() if name.startswith(f"{place}/")}
    sums = None if about["sums"] is None else BlockSums.restored(mine, about["sums"])
    return ModelState(about["model"], about["counted"], mine["counts"], about["scored"], sums)


# -- Texts in chunks. A worker gets one chunk at a time; if a score is killed, unfinished chunks are lost.

CHUNK_BYTES = 1 << 18
"""Minimum size of a chunk of texts in bytes; a chunk ends with the text that reaches this size. The size does not
depend on the number of processes, because the padding in the batches of a chunk changes the last bits of scores."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive texts (``examples``), which one worker processes together.

    Attributes:
        number: Index of the chunk, from 0.
        first: Index of the chunk's first text among all texts, from 0.
        bytes: Number of UTF-8 bytes of the chunk's texts.
    """

    number: int
    first: int
    examples: tuple[Example, ...]
    bytes: int


def chunks(examples: Iterable[Example]) -> Iterator[Chunk]:
    """Groups the texts into chunks of at least ``CHUNK_BYTES``, in order. The last chunk may be smaller.

    >>> [(one.first, len(one.examples)) for one in chunks([Example("a" * CHUNK_BYTES), Example("b"), Example("c")])]
    [(0, 1), (1, 2)]
    """
    number = first = size = 0
    waiting: list[Example] = []
    for example in examples:
        waiting.append(example)
        size += len(example.text.encode("utf-8", "surrogatepass"))
        if size >= CHUNK_BYTES:
            yield Chunk(number, first, tuple(waiting), size)
            number, first, size, waiting = number + 1, first + len(waiting), 0, []
    if waiting:
        yield Chunk(number, first, tuple(waiting), size)
