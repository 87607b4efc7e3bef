"""One model over all texts: how frequent tokens are, then how likely; each pass goes on where it was stopped."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import BinaryIO, TypeVar

import numpy as np
from jaxtyping import Float, Int

from nextword.conditioning import conditioner_spec
from nextword.functional.frequency.counts import TokenCounts, tokenizer_fingerprint
from nextword.heads import head_spec
from nextword.inference.scoring.breakdowns import Breakdown, CopiedSpans, FrequencyBands, NewAndRepeated, TextPosition
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import ScoredText, ScoringWindow, limited, scored_text
from nextword.inference.scoring.measurement.token_answers import (
    LOG_PROBS,
    answers,
    expect_numbers,
    facts_question,
    token_lines,
)
from nextword.inference.scoring.measurement.unfinished_score import Chunk, ModelState, chunks
from nextword.inference.scoring.measurement.unit_sums import BlockSums, Units
from nextword.inference.scoring.opened_model import OpenedModel, Progress
from nextword.model.training_modes import inference_mode_of
from nextword.objectives import objective_spec
from nextword.runtime.pretrained import token_label
from nextword.runtime.workers import Workers, WorkerTask

Answer = TypeVar("Answer")
OfChunk = Callable[[Chunk], WorkerTask[OpenedModel, Answer]]
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
            state = replace(state, sums=BlockSums.none(units.count, breakdowns))
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
        self, skipped: int, task: Callable[[Chunk], WorkerTask[OpenedModel, Answer]], stage: str
    ) -> Iterator[Answer]:
        """The answers about all chunks but the first ones."""
        self._done = 0
        self._sizes.clear()
        return self.asked.answers(self._tasks(skipped, task, stage))

    def _tasks(self, skipped: int, task: OfChunk[Answer], stage: str) -> Iterator[WorkerTask[OpenedModel, Answer]]:
        for chunk in chunks(self.given.examples):
            if chunk.number < skipped:
                self._done += chunk.bytes
                self._tell(stage, 0.0)
            else:
                self._sizes.append(chunk.bytes)
                yield task(chunk)

    def _tell(self, stage: str, more: float | None = None) -> None:
        """What is done by now: with the next chunk as a whole, or with so many bytes of it."""
        if more is None:
            self._done, more = self._done + self._sizes.popleft(), 0.0
        if self.progress is not None:
            self.progress(stage, (self._done + more) / self.given.bytes)


# -- What is asked of a model, by whoever has it open: what it is, how frequent tokens are, how likely texts are.


@dataclass(frozen=True)
class ModelFacts:
    """What a record says of a model, and what tells it from another; fields as in ``ModelScore``.

    Attributes:
        reads: Fields of the data that it reads besides text and prompt.
        tokenizer: Fingerprint of its tokenizer.
        weights: Changes where a weight does.
    """

    name: str
    location: str
    head: str
    objective: str
    conditioner: str | None
    backbone: str
    parameters: int
    reads: tuple[str, ...]
    window: int | None
    stride: int | None
    tokenizer: str
    weights: str

    @property
    def identity(self) -> str:
        """Equal for the same model, wherever it lies."""
        return hashlib.sha256(repr({**asdict(self), "location": ""}).encode()).hexdigest()


@dataclass(frozen=True)
class Describe:
    """Asks what the model is.

    Attributes:
        settings: How texts are scored.
    """

    settings: ScoreSettings

    def __call__(self, opened: OpenedModel) -> ModelFacts:
        """Also sees to it that the settings fit the model."""
        model, sight = opened.model, ScoringWindow.of(opened, self.settings)
        if self.settings.counts is not None:
            TokenCounts.load(self.settings.counts, "counts").expect_tokenizer(opened.tokenizer, "counts")
        conditioner = model.conditioner
        return ModelFacts(
            name=opened.name,
            location=str(model.name_or_path or model.backbone.name_or_path),
            head=head_spec(model.next_word_head.config),
            objective=objective_spec(model.objective.config),
            conditioner=None if conditioner is None else conditioner_spec(conditioner.config),
            backbone=type(model.backbone).__name__,
            parameters=sum(weight.numel() for weight in model.parameters()),
            reads=(*["source"] * opened.has_encoder, *["auxiliary"] * (opened.auxiliary_tokenizer is not None)),
            window=sight.window,
            stride=sight.stride,
            tokenizer=tokenizer_fingerprint(opened.tokenizer),
            weights=_weights(opened),
        )


def _weights(opened: OpenedModel) -> str:
    """A digest of the sum of each weight: quick, and no training step leaves all of them as they are."""
    import torch

    sums = [
        (name, str(weight.dtype), float(weight.detach().sum(dtype=torch.float64)))
        for name, weight in opened.model.state_dict().items()
    ]
    return hashlib.sha256(repr(sums).encode()).hexdigest()


@dataclass(frozen=True)
class Cut:
    """Asks for the beginning of texts.

    Attributes:
        examples: The texts.
        limit: Tokens that it has about.
    """

    examples: tuple[Example, ...]
    limit: int

    def __call__(self, opened: OpenedModel) -> tuple[list[Example], int]:
        """The texts up to there, and how many tokens are still to come."""
        return limited(opened, self.examples, self.limit)


@dataclass(frozen=True)
class CountTokens:
    """Asks how often each token is among the targets.

    Attributes:
        chunk: The texts.
        settings: How they are scored.
    """

    chunk: Chunk
    settings: ScoreSettings

    def __call__(self, opened: OpenedModel) -> tuple[Int[np.ndarray, "K"], Int[np.ndarray, "K"]]:
        """Tokens that occur, and how often; special ones do not count."""
        texts = _texts(opened, self.chunk, self.settings)
        return np.unique(np.concatenate([text.target[~text.is_special] for text in texts]), return_counts=True)


@dataclass(frozen=True)
class ScoredModel:
    """What a model said of a chunk.

    Attributes:
        sums: Its sums.
        lines: What it said of each token, as lines of a file, where that was asked for.
    """

    sums: BlockSums
    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class ScoreTexts:
    """Asks how likely texts are.

    Attributes:
        chunk: The texts.
        settings: How they are scored.
        units: What their tokens are drawn with.
        breakdowns: What tells tokens apart.
        each_token: Whether what is said of each token is wanted, too.
        told: Told the share of the chunk that is done; for this process only.
    """

    chunk: Chunk
    settings: ScoreSettings
    units: Units
    breakdowns: tuple[Breakdown, ...]
    each_token: bool = False
    told: Progress | None = None

    def __call__(self, opened: OpenedModel) -> ScoredModel:
        """Every token once."""
        texts = _texts(opened, self.chunk, self.settings)
        lines: list[bytes] = []
        found: list[Float[np.ndarray, "T"]] = []
        with inference_mode_of(opened.model):
            for text, log_probs in zip(texts, self._log_probs(opened, texts, lines.append), strict=True):
                expect_numbers(opened, text, log_probs)
                found.append(log_probs)
        numbered = enumerate(texts, self.chunk.first)
        unit = np.concatenate([self.units.of_tokens(number, text) for number, text in numbered])
        return ScoredModel(BlockSums.of(texts, found, unit, self.breakdowns), tuple(lines))

    def _log_probs(
        self, opened: OpenedModel, texts: list[ScoredText], write: Callable[[bytes], None]
    ) -> Iterator[Float[np.ndarray, "T"]]:
        sight, size = ScoringWindow.of(opened, self.settings), self.settings.batch_size
        if not self.each_token:
            yield from answers(opened, texts, sight, size, LOG_PROBS, self.told)
            return
        labels = cache(partial(token_label, opened.tokenizer))
        asked = answers(opened, texts, sight, size, facts_question(self.settings.places), self.told)
        for text, facts in zip(texts, asked, strict=True):
            yield facts.facts.log_prob
            groups = {one.key: [one.names[code] for code in one.codes(text)] for one in self.breakdowns}
            for line in token_lines(opened.name, text, facts, groups, labels):
                write(line)


def _texts(opened: OpenedModel, chunk: Chunk, settings: ScoreSettings) -> list[ScoredText]:
    sight = ScoringWindow.of(opened, settings)
    return [scored_text(opened, example, sight) for example in chunk.examples]
