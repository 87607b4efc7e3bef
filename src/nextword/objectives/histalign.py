"""HistAlign: maximum likelihood with a cache, and a ranking loss over the cache entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from nextword.functional.chunked_loss import row_chunks, sum_with_gradient
from nextword.functional.copy_scores import CopyScores
from nextword.functional.probability import at_least_float32
from nextword.heads import head_spec
from nextword.heads.context import Context
from nextword.heads.head import Head, RemembersTokens
from nextword.objectives.objective import Loss, Objective, ObjectiveConfig, registry

# -- Margin ranking over a memory, in five reductions, without a tensor of all pairs.
#
# The hinges of all pairs are one weighted sum of heights: if ``max(0, h_j - h_i)`` is above 0, the pair adds its weight
# to ``h_j`` and subtracts it from ``h_i``. The summed weights are the gradient; weights times heights are the value.


@dataclass(frozen=True)
class RankedMemory:
    """For each of N positions, the cache entries sorted by rank: entries with tokens closest to the target come first.

    Positives are the visible entries with the target token; they precede all negatives, the other visible entries. An
    entry's height is its similarity plus ``margin`` times its rank, up to a constant per position.
    """

    heights: Float[Tensor, "N S"]
    positive: Bool[Tensor, "N S"]
    negative: Bool[Tensor, "N S"]

    @cached_property
    def last_positive(self) -> Int[Tensor, "N"]:
        """Number of entries up to and including the last positive, for each position."""
        column = torch.arange(1, self.positive.shape[1] + 1, device=self.positive.device)
        return (self.positive * column).amax(-1)

    @property
    def pairs(self) -> Float[Tensor, "N"]:
        """Number of pairs of a positive and a negative, for each position."""
        return self.positive.sum(-1, dtype=torch.float64) * self.negative.sum(-1)

    def offsets(self) -> Float[Tensor, "S"]:
        """Number of pairs for each difference of ranks, beginning with the difference 0."""
        dtype, (reach, size) = self.heights.dtype, (int(self.last_positive.max()), self.positive.shape[1])
        together = self.positive[:, :reach].to(dtype).T @ self.negative.to(dtype)
        # row p is shifted left by p, so that each column holds one difference
        width = size + reach
        skewed = F.pad(together, (0, reach)).flatten()
        return skewed.as_strided((reach, size), (width + 1, 1)).sum(0, dtype=torch.float64)


Weigh = Callable[[RankedMemory], Tensor]
"""A function that returns the weight of each height (N, S) in the reduced sum of hinges."""


def pair_weights(memory: RankedMemory) -> Float[Tensor, "N S"]:
    """Returns the weight of each height in the sum of hinges if every pair has the weight 1.

    A negative gets +1 for every positive with a smaller height, and a positive gets -1 for every negative with a larger
    height. A position has few positives, so it is enough to sort these; pairs are not enumerated.
    """
    reach = int(memory.last_positive.max())
    low, position = memory.heights[:, :reach].masked_fill(~memory.positive[:, :reach], torch.inf).sort(-1)
    below = torch.searchsorted(low.contiguous(), memory.heights).mul_(memory.negative)
    weights = below.to(memory.heights.dtype)
    # the negatives above a positive are those with more positives below them than this positive has
    counted = weights.new_zeros(len(low), reach + 1).scatter_add_(1, below, torch.ones_like(weights))
    above = counted.flip(1).cumsum(1).flip(1)[:, 1:]
    weights[:, :reach] -= torch.zeros_like(above).scatter_(1, position, above)
    return weights


def offset_weights(memory: RankedMemory, by_offset: Float[Tensor, "S"]) -> Float[Tensor, "N S"]:
    """Returns the weight of each height if a pair whose ranks differ by d has the weight ``by_offset[d]``.

    For each p, one step compares the p-th entry of every position with the later entries of the position, because all
    positions use the same slice of ``by_offset``.
    """
    # positions with many positives first, so that a slice leaves out the others
    last, order = memory.last_positive.sort(descending=True)
    heights, positive = memory.heights[order], memory.positive[order]
    own = heights.masked_fill(~positive, torch.inf)
    heights.masked_fill_(~memory.negative[order], -torch.inf)
    weights, size = torch.zeros_like(heights), heights.shape[1]
    having = torch.searchsorted(-last, -torch.arange(int(last[0]), device=last.device)).tolist()
    for first, many in enumerate(having):
        active = (heights[:many, first:] > own[:many, first, None]) * by_offset[: size - first]
        weights[:many, first:] += active
        weights[:many, first] -= active.sum(-1)
    return torch.empty_like(weights).index_copy_(0, order, weights)


def _position_mean(memories: Iterable[RankedMemory]) -> Weigh:
    return lambda memory: pair_weights(memory) / memory.pairs.clamp_min(1)[:, None].to(memory.heights.dtype)


def _pair_mean(memories: Iterable[RankedMemory]) -> Weigh:
    pairs = sum(float(memory.pairs.sum()) for memory in memories)
    return lambda memory: pair_weights(memory) / max(1.0, pairs)


def _by_offset(memories: Iterable[RankedMemory], *, mean: bool) -> Weigh:
    counts = torch.zeros(())
    for memory in memories:
        counts = counts.to(memory.heights.device) + memory.offsets()
    occurring = (counts > 0).sum().clamp_min(1) if mean else 1
    by_offset = torch.where(counts > 0, 1 / counts.clamp_min(1), 0.0) / occurring
    return lambda memory: offset_weights(memory, by_offset.to(memory.heights.dtype))


REDUCTIONS: dict[str, Callable[[Iterable[RankedMemory]], Weigh]] = {
    "position_mean": _position_mean,  # over the pairs of each position, summed over positions
    "pair_sum": lambda memories: pair_weights,  # over all pairs (HistAlign, eq. 5)
    "pair_mean": _pair_mean,  # over all pairs of the batch
    # for each difference of ranks, the mean over all pairs of the batch with this difference; then the mean of these
    # means over the differences that occur (released GPT-2 code), or their sum (released BART code)
    "offset_mean": partial(_by_offset, mean=True),
    "offset_sum": partial(_by_offset, mean=False),
}
"""The reductions by name. Each receives an iterable of the memories of the whole batch, iterates over it once if it
counts pairs over the batch, and returns a function ``Weigh``."""

SUMS_OF_POSITIONS = frozenset({"position_mean", "pair_sum"})
"""Reductions that are sums over positions. In the others, the pairs of one row change the weight of other rows."""


_FORMS: dict[str, dict[str, str]] = {
    "paper": {"base": "mle", "reduction": "pair_sum", "ranks": "valid", "embedding": "output"},
    "released": {"reduction": "offset_mean", "ranks": "all", "memory_values": "labels"},
    "released-bart": {"reduction": "offset_sum", "ranks": "all"},
}
"""Settings of the published forms that differ from the defaults, by the form's name in a spec."""


# -- HistAlign.

_VALUES = ("inputs", "labels")

_BYTES = 64
"""Estimated bytes per position and entry in a chunk: scores, weights, two orders, counts and masks."""


class HistAlignConfig(ObjectiveConfig):
    """Settings of HistAlign."""

    objective: Literal["histalign"] = "histalign"
    base: Literal["trime", "mle"] = "trime"
    """Token loss: likelihood under softmax and cache together (``trime``, as released) or under the softmax alone
    (``mle``, the paper's eq. 6)."""
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the ranking loss (published: 1; on LogicNLG 0.5)."""
    margin: float = Field(default=0.001, ge=0)
    """Margin per difference of ranks (lambda in the paper)."""
    reduction: Literal["position_mean", "pair_sum", "pair_mean", "offset_mean", "offset_sum"] = "position_mean"
    """How pairs become one number. ``position_mean``: the mean over each position's pairs, averaged over tokens;
    ``pair_sum``: the sum over all pairs, divided by the number of tokens (eq. 5); ``pair_mean``: the mean over all
    pairs of the batch. ``offset_mean`` takes the mean of the batch's pairs for each difference of ranks, then averages
    these means (released GPT-2 code); ``offset_sum`` adds these means (released BART code)."""
    ranks: Literal["valid", "all"] = "valid"
    """``valid``: ranks among the visible entries (the paper); ``all``: among all tokens of the row or source, later
    ones included (as released). Padding has no rank."""
    embedding: Literal["input", "output"] = "input"
    """Embedding whose cosine ranks tokens: the input embedding (as released) or the output embedding (the paper). Tied
    embeddings are one matrix."""
    memory_values: Literal["inputs", "labels"] = "inputs"
    """Tokens that the cache stores in the token loss: the input tokens, or the labels (as the released GPT-2 code
    does)."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of a spec such as ``histalign:released,inputs`` or ``histalign:labels``."""
        form = arguments[0] if arguments and arguments[0] in _FORMS else None
        values = arguments[1:] if form else arguments
        if len(values) > 1 or not set(values) <= set(_VALUES):
            raise ValueError(
                f"must be followed by nothing or one of {', '.join(_FORMS)}, and perhaps by 'inputs' or 'labels' "
                f"({','.join(arguments)!r} given)"
            )
        return {**_FORMS.get(form or "", {}), **({"memory_values": values[0]} if values else {})}

    def arguments(self) -> list[str]:
        """Returns the spec's arguments: the published form, if any, and ``memory_values`` unless it is the form's."""
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        for name, form in [(None, {}), *_FORMS.items()]:
            settings = {**usual, **form}
            if all(getattr(self, key) == settings[key] for key in ("base", "reduction", "ranks", "embedding")):
                own = [] if self.memory_values == settings["memory_values"] else [self.memory_values]
                return [*([name] if name else []), *own]
        return [] if self.memory_values == "inputs" else [self.memory_values]


@registry.register("histalign")
class HistAlign(Objective):
    """Token loss plus a ranking loss over the cache entries.

    Formula, with the similarity ``s_tj`` of position t and entry j, positives i (visible entries with the target
    token), negatives j (the other visible entries), and ranks r by the cosine of an entry's embedding to the target's::

        L = L_token + alpha * reduce_{t, i, j: r_j > r_i} max(0, s_tj - s_ti + margin (r_j - r_i))

    Effect: entries with the target get higher scores than entries with similar tokens, and these get higher scores than
    unrelated ones, so the cache alone can predict the target. Cost: similarities are computed a second time; one sort
    per distinct target; for positions whose target is in the cache, one search per entry. ``offset_mean`` and
    ``offset_sum`` visit every pair.

    The setting ``reduction`` chooses ``reduce``. By default it is the mean over each position's pairs, summed over
    positions, with ranks among the visible entries; the loss of a batch is then the sum of the losses of its rows.
    ``histalign:paper`` is eq. 5 and 6. ``histalign:released`` and ``histalign:released-bart`` are the two released
    codes, which weight pairs by counts over the whole batch.

    Source: HistAlign, eq. 5 and 6.

    Differs from the published code: padding has no rank; rank differences without a pair are skipped (released: NaN or
    an exception); without positives the ranking loss is 0; ties are broken by position; an entry that holds the target
    outranks all others even if another token has the same embedding.

    Examples:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective("histalign:paper").reduction
        'pair_sum'
    """

    Config = HistAlignConfig

    def check(self, head: Head) -> None:
        """Raises ValueError if ``head`` stores no tokens, or only source tokens while ``memory_values`` is "labels"."""
        if not isinstance(head, RemembersTokens):
            raise ValueError(
                f"histalign: head '{head_spec(head.config)}' stores no tokens, so there is nothing to align; "
                "use 'cache'"
            )
        if self.config.memory_values == "labels" and not head.remembers:
            raise ValueError(
                f"histalign.memory_values: head '{head_spec(head.config)}' stores the source's tokens on this model, "
                "which have no labels; use 'inputs' (the released code for such models is 'histalign:released-bart')"
            )

    @property
    def couples_rows(self) -> str:
        """The reason why the loss is not a sum over rows; empty if it is such a sum."""
        if self.config.reduction in SUMS_OF_POSITIONS:
            return ""
        return f"{self.config.reduction} divides by counts of pairs over the whole batch"

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Returns the token loss plus ``alpha`` times the ranking loss, neither divided by the number of tokens."""
        assert isinstance(head, RemembersTokens)
        tokens = len(targets)
        # computed before the token loss, which keeps (N, S) tensors until the backward pass
        ranking = Alignment(self.config, head, context, targets).loss()
        seen = context.with_label_values() if self.config.memory_values == "labels" else context
        mode = "lm_only" if self.config.base == "mle" else "joint"
        token_loss = -head(seen, mode=mode).log_likelihood(targets)
        # a sum over positions is already a sum over tokens; a mean is multiplied by the tokens of its batch
        summed_up = ranking if self.config.reduction in SUMS_OF_POSITIONS else ranking * tokens
        return Loss(
            token_loss + self.config.alpha * summed_up,
            tokens,
            Loss.of(token_loss, tokens, token_loss=token_loss, ranking_loss=summed_up).parts,
        )


class _LaidOut(NamedTuple):
    # the visible entries of some positions, sorted by rank; positions without a pair are left out
    used: Int[Tensor, "M"]
    order: Int[Tensor, "M S"]
    memory: RankedMemory


@dataclass(frozen=True)
class Alignment:
    """The ranking loss of a batch, computed in chunks, so that no (position, entry) tensor is kept."""

    config: HistAlignConfig
    head: Any
    context: Context
    targets: Int[Tensor, "N"]

    def loss(self) -> Float[Tensor, ""]:
        """Returns the hinge losses of all pairs, combined into one number as the setting ``reduction`` says."""
        states, inputs = self.context.states, self.context.inputs
        if not len(self.targets):
            return states.sum() * 0.0
        weigh = REDUCTIONS[self.config.reduction](self._memories())

        def hinges(chunk: slice, rows: list[Tensor], _: object) -> Tensor:
            context = replace(self._context(chunk), states=rows[0], inputs=rows[-1])
            entries: CopyScores = self.head.entries(context)
            scores = at_least_float32(entries.scores)
            weights, value = torch.zeros_like(scores), scores.new_zeros(())
            with torch.no_grad():
                found = self._laid_out(chunk, entries)
                if found is not None:
                    by_rank = weigh(found.memory)
                    value = (by_rank * found.memory.heights).sum()
                    weights[found.used] = torch.empty_like(by_rank).scatter_(1, found.order, by_rank)
            # the value comes from the heights, which are small numbers; the gradient is the weights
            linear = (weights * scores).sum()
            return value + (linear - linear.detach())

        rows = [own[self._positions] for own in ([states] if inputs is states else [states, inputs])]
        return sum_with_gradient(hinges, self._chunks, rows, self._shared())

    def _memories(self) -> Iterator[RankedMemory]:
        with torch.no_grad():
            for chunk in self._chunks:
                found = self._laid_out(chunk, self.head.entries(self._context(chunk)))
                if found is not None:
                    yield found.memory

    @cached_property
    def _positions(self) -> Int[Tensor, "N"]:
        # row by row, positions with the same target next to each other, because their entries have the same order
        return (self.context.row * (self.targets.max() + 1) + self.targets).argsort(stable=True)

    @cached_property
    def _chunks(self) -> list[slice]:
        context = self.context
        stored = context.memory if context.source is None else context.source
        assert stored is not None
        return row_chunks(len(self.targets), _BYTES * stored.ids.shape[1], context.states.device)

    def _shared(self) -> list[Tensor]:
        # tensors other than the position's state that entries may depend on
        memory, source = self.context.memory, self.context.source
        found = list(self.head.parameters())
        found += [] if memory is None else memory.streams.values()
        found += [] if source is None else [source.states, *source.streams.values()]
        return [tensor for tensor in found if tensor.requires_grad]

    def _context(self, chunk: slice) -> Context:
        return self.context.at(self._positions[chunk])

    def _laid_out(self, chunk: slice, entries: CopyScores) -> _LaidOut | None:
        targets, ids = self.targets[self._positions[chunk]], entries.ids
        held = ids[entries.row] == targets[:, None]
        used = (held & entries.visible).any(-1).nonzero()[:, 0]
        if not len(used):
            return None
        ranked = torch.ones_like(ids, dtype=torch.bool) if entries.stored is None else entries.stored
        order = Nearness(self._embedding, ids).order(entries.row[used], targets[used], ranked)
        visible = entries.visible[used].gather(1, order)
        if self.config.ranks == "valid":
            order, visible = visible_first(order, visible)
        held = held[used].gather(1, order)
        heights = at_least_float32(entries.scores.detach())[used].gather(1, order)
        # relative to the best positive: differences of large numbers would lose digits
        heights -= heights.masked_fill(~(visible & held), -torch.inf).amax(-1, keepdim=True)
        heights += self.config.margin * torch.arange(heights.shape[1], device=heights.device, dtype=heights.dtype)
        return _LaidOut(used, order, RankedMemory(heights, visible & held, visible & ~held))

    @property
    def _embedding(self) -> Float[Tensor, "V _"]:
        given = {"input": self.context.input_embedding, "output": self.context.output_embedding}
        found = given[self.config.embedding]
        if found is None:
            raise ValueError(
                f"histalign: compares tokens by the model's {self.config.embedding} embedding, which is quantised, "
                "offloaded or sharded over processes, so it cannot be read; load the model with this layer in memory, "
                "whole and not quantised"
            )
        return found


# -- Sorting stored tokens by the cosine of their embeddings to that of a target.


class Nearness:
    """Sorts stored entries by the cosine between their token's embedding and a target's, without gradient.

    Entries that are never ranked may have an id outside the embedding.
    """

    def __init__(self, embedding: Float[Tensor, "V _D"], ids: Int[Tensor, "B S"]) -> None:
        self._embedding, self._ids = embedding.detach(), ids
        stored, self._at = torch.unique(ids.clamp(0, len(embedding) - 1), return_inverse=True)
        self._stored = self._directions(stored)

    def order(
        self, row: Int[Tensor, "N"], targets: Int[Tensor, "N"], ranked: Bool[Tensor, "B S"]
    ) -> Int[Tensor, "N S"]:
        """Returns the indices of each position's entries: first those with the target, then others by falling cosine.

        The entries of position n are ``ids[row[n]]``. Entries that ``ranked`` does not mark come last. Equal cosines
        are ordered by index. Entries that hold the target come first whatever their rounded cosine is.
        """
        # neighbouring positions with the same target share the computation
        other = torch.ones_like(row, dtype=torch.bool)
        other[1:] = (row[1:] != row[:-1]) | (targets[1:] != targets[:-1])
        row, targets, position = row[other], targets[other], other.cumsum(0) - 1
        # one product per pair of distinct tokens, so that equal tokens have exactly equal cosines
        wanted, wanted_at = torch.unique(targets, return_inverse=True)
        with torch.autocast(self._stored.device.type, enabled=False):
            table = self._directions(wanted) @ self._stored.T
        cosine = table[wanted_at].gather(1, self._at[row])
        cosine.masked_fill_(self._ids[row] == targets[:, None], 2.0).masked_fill_(~ranked[row], -2.0)
        return cosine.argsort(dim=-1, descending=True, stable=True)[position]

    def _directions(self, tokens: Int[Tensor, "N"]) -> Float[Tensor, "N _D"]:
        return F.normalize(at_least_float32(self._embedding[tokens]), dim=-1)


def visible_first(
    order: Int[Tensor, "N S"], visible: Bool[Tensor, "N S"]
) -> tuple[Int[Tensor, "N S"], Bool[Tensor, "N S"]]:
    """Moves the ``visible`` entries of ``order`` to the front. Returns the new order and the mask of these entries.

    >>> order, visible = visible_first(torch.tensor([[3, 1, 0, 2]]), torch.tensor([[False, True, True, False]]))
    >>> order.tolist(), visible.int().tolist()
    ([[1, 0, 3, 2]], [[1, 1, 0, 0]])
    """
    column = torch.arange(order.shape[1], device=order.device, dtype=torch.int32)
    until = visible.cumsum(1, dtype=torch.int32)
    many = until[:, -1:]
    position = torch.where(visible, until - 1, many + column - until).long()
    return torch.empty_like(order).scatter_(1, position, order), column < many
