"""One model over all texts: how frequent tokens are, then how likely; each pass goes on where it was stopped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO, TypeVar

from nextword.functional.frequency.counts import TokenCounts
from nextword.inference.scoring.breakdowns.breakdown import Breakdown
from nextword.inference.scoring.breakdowns.copied_spans import CopiedSpans
from nextword.inference.scoring.breakdowns.frequency_bands import FrequencyBands
from nextword.inference.scoring.breakdowns.new_and_repeated import NewAndRepeated
from nextword.inference.scoring.breakdowns.text_position import TextPosition
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.interval_units import Units
from nextword.inference.scoring.measurement.model_tasks import CountTokens, ScoreTexts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.text_chunks import Chunk, chunks
from nextword.inference.scoring.measurement.unfinished_score import ModelState
from nextword.inference.scoring.measurement.unit_sums import UnitSums
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.runtime.workers import Task, Workers

Answer = TypeVar("Answer")
OfChunk = Callable[[Chunk], Task[OpenedModel, Answer]]
"""What is asked about a chunk."""

Watch = Callable[[str, float], None]
"""Told a model's name and the share of the texts that is done."""

Keep = Callable[[ModelState], None]
"""Told how far a model is, after each chunk."""


@dataclass
class ModelPasses:
    """What is done with one model.

    Attributes:
        asked: Who has it open.
        name: What tables call it.
        given: The texts.
        settings: How they are scored.
        keep: Told how far it is.
        progress: The same for a person.
    """

    asked: Workers[OpenedModel]
    name: str
    given: GivenTexts
    settings: ScoreSettings
    keep: Keep
    progress: Watch | None = None
    _sizes: deque[int] = field(default_factory=deque, init=False)
    _done: int = field(default=0, init=False)

    def breakdowns(self, state: ModelState) -> tuple[ModelState, tuple[Breakdown, ...]]:
        """What tells tokens apart; counts tokens in the texts, unless they were counted elsewhere."""
        if self.settings.counts is not None:
            frequency = FrequencyBands.of_counts(TokenCounts.load(self.settings.counts, "counts"))
        else:
            state = self._counted(state)
            frequency = FrequencyBands(state.counts, "the scored texts")
        return state, (NewAndRepeated(), CopiedSpans(self.settings.span), frequency, TextPosition())

    def _counted(self, state: ModelState) -> ModelState:
        stage = f"{self.name}: token counts"

        def task(chunk: Chunk) -> CountTokens:
            return CountTokens(chunk, self.settings)

        for ids, counts in self._answers(state.counted, task, stage):
            state = state.with_counts(ids, counts)
            self.keep(state)
            self._tell(stage)
        return state

    def scored(self, state: ModelState, breakdowns: tuple[Breakdown, ...], file: BinaryIO | None) -> ModelState:
        """Scores every token once; what is said of each goes to a file, where there is one."""
        units = Units.of(self.given)
        if state.sums is None:
            state = replace(state, sums=UnitSums.none(units.count, breakdowns))
        # what computes here says how far it is within a chunk, too
        here = self.progress is not None and self.asked.in_this_process

        def task(chunk: Chunk) -> ScoreTexts:
            told = (lambda share: self._tell(self.name, share * chunk.bytes)) if here else None
            return ScoreTexts(chunk, self.settings, units, breakdowns, file is not None, told)

        for scored in self._answers(state.scored, task, self.name):
            state = state.with_sums(scored.sums)
            self.keep(state)
            for line in scored.lines:
                if file is not None:
                    file.write(line)
            self._tell(self.name)
        return state

    def _answers(
        self, skipped: int, task: Callable[[Chunk], Task[OpenedModel, Answer]], stage: str
    ) -> Iterator[Answer]:
        """The answers about all chunks but the first ones."""
        self._done = 0
        self._sizes.clear()
        return self.asked.answers(self._tasks(skipped, task, stage))

    def _tasks(self, skipped: int, task: OfChunk[Answer], stage: str) -> Iterator[Task[OpenedModel, Answer]]:
        for chunk in chunks(self.given.examples):
            if chunk.number < skipped:
                self._done += chunk.bytes
                self._tell(stage, 0)
            else:
                self._sizes.append(chunk.bytes)
                yield task(chunk)

    def _tell(self, stage: str, more: float | None = None) -> None:
        """What is done by now: with the next chunk as a whole, or with so many bytes of it."""
        if more is None:
            self._done, more = self._done + self._sizes.popleft(), 0
        if self.progress is not None:
            self.progress(stage, (self._done + more) / self.given.bytes)
