"""Answers that depend on the company: on the other texts of a batch, their lengths, or what was asked before."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.helpers.audit_zoo.batch_scorers import PaddedLeft
from tests.helpers.audit_zoo.naming import LEFT_OVER, NEIGHBOUR, NOT_REPEATABLE, ORDER, PADDING, SCORED_BEFORE
from tests.helpers.audit_zoo.ngrams import NGram, UnigramCache
from tests.helpers.audit_zoo.planting import fault


@fault(PADDING, twin=PaddedLeft)
class PositionsCountPadding(PaddedLeft):
    """Left padding shifts the position ids of the text."""

    def inputs(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        return {"input_ids": ids, "attention_mask": mask, "position_ids": torch.arange(ids.shape[1]).expand_as(ids)}


@fault(PADDING, twin=PaddedLeft)
class AttendsToPadding(PaddedLeft):
    """The network gets no padding mask."""

    def inputs(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        return {"input_ids": ids, "position_ids": (mask.cumsum(1) - 1).clamp_min(0)}


@fault(PADDING, twin=PaddedLeft)
class ReadsAfterThePadding(PaddedLeft):
    """Prefixes are padded on the right, and the output is read at the last position of the row."""

    def padded(self, prefixes: list[list[int]]) -> tuple[Tensor, Tensor]:
        return tuple(both.gather(1, place) for both, place in self._turned(super().padded(prefixes)))  # type: ignore[return-value]

    @staticmethod
    def _turned(both: tuple[Tensor, Tensor]) -> list[tuple[Tensor, Tensor]]:
        place = both[1].argsort(dim=1, descending=True, stable=True)
        return [(one, place) for one in both]


@fault(PADDING, NEIGHBOUR, twin=PaddedLeft)
class CutToTheShortest(PaddedLeft):
    """All prefixes of a batch are truncated to the length of the shortest, to avoid padding."""

    def padded(self, prefixes: list[list[int]]) -> tuple[Tensor, Tensor]:
        shortest = min(len(prefix) for prefix in prefixes)
        return super().padded([prefix[-shortest:] for prefix in prefixes])


@fault(NEIGHBOUR, twin=PaddedLeft)
class BatchNorm(PaddedLeft):
    """Scores are normalised with statistics of the batch, as a batch norm in training does."""

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        log_p = super().__call__(prefixes)
        return (log_p - 0.1 * log_p.mean(0)).log_softmax(-1)


@fault(NEIGHBOUR, ORDER, twin=UnigramCache)
class CopiesInterleaved(UnigramCache):
    """As in published beam search: a text copies from the memory of its neighbour in the batch."""

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        read = [list(prefix) for prefix in prefixes]
        memories = [self.memory(one) for one in [*read[1:], *read[:1]]]
        pairs = zip(read, memories, strict=True)
        return torch.stack([self.blend(NGram.log_probs(self, one).exp(), memory).log() for one, memory in pairs])


@fault(ORDER, NEIGHBOUR, PADDING, twin=NGram)
class SortedByLength(NGram):
    """Texts are sorted by length to save padding, and the outputs are not restored to the original order."""

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        return super().__call__(sorted(prefixes, key=len))


@fault(ORDER, twin=NGram)
class RowsOfTwoModels(NGram):
    """Every second row of a batch is scored by another model of an ensemble."""

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        temperature = 1 + 0.1 * (torch.arange(len(prefixes)) % 2)
        return (super().__call__(prefixes) / temperature[:, None]).log_softmax(-1)


@fault(LEFT_OVER, SCORED_BEFORE, NOT_REPEATABLE, twin=NGram)
class RunningMean(NGram):
    """Scores are centred by a running mean of all earlier outputs."""

    mean = 0.0

    def log_probs(self, prefix: list[int]) -> Tensor:
        scores = self.scores(prefix)
        self.mean = 0.9 * self.mean + 0.1 * scores
        return (scores - 0.3 * self.mean).log_softmax(-1)


@fault(LEFT_OVER, SCORED_BEFORE, NOT_REPEATABLE, NEIGHBOUR, twin=UnigramCache)
class PrefixesCollide(UnigramCache):
    """Outputs are cached by length and last token of the prefix, and returned for other prefixes with the same key."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, int], Tensor] = {}

    def log_probs(self, prefix: list[int]) -> Tensor:
        return self.kept.setdefault((len(prefix), prefix[-1]), super().log_probs(prefix))


@fault(NOT_REPEATABLE, twin=NGram)
class DropoutLeftOn(NGram):
    """Dropout is on."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(11)

    def scores(self, prefix: list[int]) -> Tensor:
        scores = super().scores(prefix)
        return scores * (torch.rand(scores.shape, generator=self.generator) > 0.1) / 0.9
