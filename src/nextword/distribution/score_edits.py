"""Edits: changes to the scores of few tokens per position, after all V tokens were scored (dense scores)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.copy_scores import CopyScores, TextRead, WordScores
from nextword.functional.inplace import overwrite_
from nextword.functional.probability import at_least_float32
from nextword.functional.weight_gradient import FusedBackward


class EditMode(ABC):
    """The rule by which a value changes a token's score: ``Replace`` or ``Add``."""

    @abstractmethod
    def scores_of(
        self,
        vocabulary: Vocabulary,
        states: Float[Tensor, "B Q D"],
        ids: Int[Tensor, "B K"],
        fused_backward: FusedBackward | None = None,
    ) -> Float[Tensor, "B Q K"]:
        """The values of the tokens ``ids`` for the queries ``states``, computed by ``vocabulary``."""

    @abstractmethod
    def write_(
        self,
        scores: Float[Tensor, "N V"],
        ids: Int[Tensor, "N K"],
        values: Float[Tensor, "N K"],
        present: Bool[Tensor, "N K"],
        fused_backward: FusedBackward | None = None,
    ) -> Float[Tensor, "N V"]:
        """Changes the scores of ``ids`` with ``values`` in place, where ``present`` is True, and returns ``scores``."""

    @abstractmethod
    def gather(
        self, values: Float[Tensor, "N K"], columns: Int[Tensor, "N J"], new: Float[Tensor, "N J"]
    ) -> Float[Tensor, "N K"]:
        """Returns ``values`` of earlier ``Rerank`` steps, updated at ``columns`` with the values ``new`` of a step."""

    @abstractmethod
    def standing(
        self, initial: Float[Tensor, "N K"], values: Float[Tensor, "N K"], present: Bool[Tensor, "N K"]
    ) -> Float[Tensor, "N K"]:
        """The scores of K tokens after ``values`` changed their ``initial`` scores where ``present`` is True."""


class Replace(EditMode):
    """The value replaces the score (mode "assign")."""

    def scores_of(
        self, vocabulary: Vocabulary, states: Tensor, ids: Tensor, fused_backward: FusedBackward | None = None
    ) -> Tensor:
        return vocabulary.scores_of(states, ids, fused_backward)

    def write_(
        self, scores: Tensor, ids: Tensor, values: Tensor, present: Tensor, fused_backward: FusedBackward | None = None
    ) -> Tensor:
        return overwrite_(scores, ids, values, present, fused_backward)

    def gather(self, values: Tensor, columns: Tensor, new: Tensor) -> Tensor:
        return values.scatter(1, columns, new)

    def standing(self, initial: Tensor, values: Tensor, present: Tensor) -> Tensor:
        return torch.where(present, values, initial)


class Add(EditMode):
    """The value is added to the score (mode "add")."""

    def scores_of(
        self, vocabulary: Vocabulary, states: Tensor, ids: Tensor, fused_backward: FusedBackward | None = None
    ) -> Tensor:
        """Scores of the queries without the bias of the output layer, which the dense score already includes."""
        of_zero = vocabulary.scores_of(states.new_zeros(states.shape[0], 1, states.shape[2]), ids, fused_backward)
        # a token that the vocabulary excludes remains excluded
        return (vocabulary.scores_of(states, ids, fused_backward) - of_zero).masked_fill(of_zero == -torch.inf, 0.0)

    def write_(
        self, scores: Tensor, ids: Tensor, values: Tensor, present: Tensor, fused_backward: FusedBackward | None = None
    ) -> Tensor:
        return scores.scatter_add_(1, ids, values.masked_fill(~present, 0.0).to(scores.dtype))

    def gather(self, values: Tensor, columns: Tensor, new: Tensor) -> Tensor:
        return values.scatter_add(1, columns, new)

    def standing(self, initial: Tensor, values: Tensor, present: Tensor) -> Tensor:
        return initial + values


@dataclass(frozen=True)
class EditedTokens:
    """The tokens that an edit changed.

    Args:
        source: Name under which ``sources`` reports their probability.
        ids: K tokens at each position.
        present: True for those of ``ids`` that were changed.
        positions: Text positions of the tokens, as in ``TokenLogitEdit``.
    """

    source: str
    ids: Int[Tensor, "N K"]
    present: Bool[Tensor, "N K"]
    positions: CopyScores | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> EditedTokens:
        positions = None if self.positions is None else self.positions.map(change)
        return EditedTokens(self.source, change(self.ids), change(self.present), positions)

    def holds(self, ids: Int[Tensor, "N J"], vocab_size: int) -> Bool[Tensor, "N J"]:
        """Whether the edit changed each of the tokens ``ids``."""
        if self.ids.shape[1] * ids.shape[1] < vocab_size:
            same = self.ids[:, :, None] == ids[:, None, :]
            return (same & self.present[:, :, None]).any(1)
        marks = torch.zeros(len(self.ids), vocab_size, dtype=torch.int32, device=self.ids.device)
        return marks.scatter_add(1, self.ids, self.present.int()).gather(1, ids) > 0


class LogitEdit(ABC):
    """A change to the scores of few tokens per position, applied to the dense scores after earlier edits."""

    @abstractmethod
    def map(self, change: Callable[[Tensor], Tensor]) -> LogitEdit:
        """The same edit with ``change`` applied to every tensor that has one row per position."""

    def positions_in(self) -> dict[str, TextRead]:
        """Mapping from the edit's name in ``sources`` to the text that the positions of its tokens belong to.

        Empty if the edit has no positions.
        """
        return {}

    @abstractmethod
    def apply_(
        self, scores: Float[Tensor, "N V"], vocabulary: Vocabulary, fused_backward: FusedBackward | None = None
    ) -> tuple[Float[Tensor, "N V"], list[EditedTokens]]:
        """Changes ``scores`` in place; returns the scores and the changed tokens, latest change last."""


@dataclass(frozen=True)
class TokenLogitEdit(LogitEdit):
    """New scores for given tokens, such as those of the context or of the source (partitions).

    Args:
        source: Name under which ``sources`` reports the probability of the changed tokens.
        words: Distinct tokens at each position, each with a value. Tokens not ``present`` are not changed.
        change: How the value changes the score.
        positions: Text positions of the tokens, with scores. A token's probability is divided among its positions in
            proportion to ``exp`` of their scores. None: it is not divided.

    Raises:
        TypeError: If ``words`` is not a ``WordScores``, so that tokens could occur twice.
    """

    source: str
    words: WordScores
    change: EditMode
    positions: CopyScores | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.words, WordScores):
            raise TypeError(
                "TokenLogitEdit: words must be WordScores, in which each token occurs once "
                f"({type(self.words).__name__} given); nextword.heads.past_words and source_words make them of a "
                "text"
            )

    def map(self, change: Callable[[Tensor], Tensor]) -> TokenLogitEdit:
        positions = None if self.positions is None else self.positions.map(change)
        return TokenLogitEdit(self.source, self.words.map(change), self.change, positions)

    def positions_in(self) -> dict[str, TextRead]:
        return {} if self.positions is None else {self.source: self.positions.text}

    def apply_(
        self, scores: Float[Tensor, "N V"], vocabulary: Vocabulary, fused_backward: FusedBackward | None = None
    ) -> tuple[Float[Tensor, "N V"], list[EditedTokens]]:
        ids, present = self.words.ids, self.words.present
        written = vocabulary.columns.writable(ids, self.words.scores, present)
        changed = self.change.write_(scores, *written, fused_backward)
        return changed, [EditedTokens(self.source, ids, present, self.positions)]


@dataclass(frozen=True)
class Rerank(LogitEdit):
    """Scores the best tokens again, in steps: each step takes the best tokens so far, and scores them by its own query.

    Source: Softmax-CPR, reranker partition R. A step takes its candidates from all scores after the previous step. Each
    candidate either was a candidate before or is among the best ``sum(sizes)`` tokens by the original scores, so one
    top-k over the vocabulary is enough for all steps.

    Args:
        queries: Query of each of J steps, at each position.
        sizes: Number of candidates of each step.
        change: How the new score changes the old one.
        from_initial: Whether each step takes its candidates from the scores before the first step.
    """

    queries: Float[Tensor, "N J D"]
    sizes: Sequence[int]
    change: EditMode
    from_initial: bool = False

    def map(self, change: Callable[[Tensor], Tensor]) -> Rerank:
        return Rerank(change(self.queries), self.sizes, self.change, self.from_initial)

    def apply_(
        self, scores: Float[Tensor, "N V"], vocabulary: Vocabulary, fused_backward: FusedBackward | None = None
    ) -> tuple[Float[Tensor, "N V"], list[EditedTokens]]:
        columns, size = vocabulary.columns, vocabulary.size
        if self.sizes[0] > size:
            raise ValueError(f"reranker: must have at most {size} candidates, the vocabulary ({self.sizes[0]} given)")
        initial, ids = columns.top_k(scores.detach(), min(sum(self.sizes), size))
        rescored = at_least_float32(self.change.scores_of(vocabulary, self.queries, ids, fused_backward))
        values, present = torch.zeros_like(initial), torch.zeros_like(ids, dtype=torch.bool)
        touched = []
        for step, size in enumerate(self.sizes):
            standing = initial if self.from_initial else self.change.standing(initial, values.detach(), present)
            best = standing.topk(size).indices
            values = self.change.gather(values, best, rescored[:, step].gather(1, best).to(values.dtype))
            chosen = torch.zeros_like(present).scatter(1, best, True)
            present = present | chosen
            touched.append(EditedTokens(f"reranker {size}", ids, chosen))
        return self.change.write_(scores, *columns.writable(ids, values, present), fused_backward), touched
