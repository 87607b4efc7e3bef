"""HistAlign: TRIME and a ranked contrastive loss that aligns states with the states in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from nextword.functional.chunked.budget import row_chunks
from nextword.functional.chunked.chunked_loss import sum_with_gradient
from nextword.functional.logspace import at_least_float32
from nextword.functional.stored_entries import Entries
from nextword.heads import head_spec
from nextword.heads.context import Context
from nextword.heads.head import Head, RemembersTokens
from nextword.objectives.objective import Objective, ObjectiveConfig, registry
from nextword.objectives.parts.embedding_nearness import Nearness, visible_first
from nextword.objectives.parts.loss import Loss
from nextword.objectives.parts.ranking import REDUCTIONS, SUMS_OF_POSITIONS, RankedMemory

_FORMS: dict[str, dict[str, str]] = {
    "paper": {"base": "mle", "reduction": "pair_sum", "ranks": "valid", "embedding": "output"},
    "released": {"reduction": "offset_mean", "ranks": "all", "memory_values": "labels"},
    "released-bart": {"reduction": "offset_sum", "ranks": "all"},
}
"""What the published forms set otherwise than the default, by the name in a spec."""
_VALUES = ("inputs", "labels")

_BYTES = 64
"""Of a chunk for each position and entry: scores and weights, two orders, what is counted in them, masks."""


class HistAlignConfig(ObjectiveConfig):
    """Settings of HistAlign."""

    objective: Literal["histalign"] = "histalign"
    base: Literal["trime", "mle"] = "trime"
    """Token loss: of the joint distribution (as released) or of the softmax alone (the paper's eq. 6)."""
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the ranking loss (published: 1, LogicNLG 0.5)."""
    margin: float = Field(default=0.001, ge=0)
    """Margin a rank, lambda in the paper."""
    reduction: Literal["position_mean", "pair_sum", "pair_mean", "offset_mean", "offset_sum"] = "position_mean"
    """How pairs become one number: mean over the pairs of each position, summed over positions and divided by the
    tokens as the token loss is; the plain sum of all pairs, divided likewise (eq. 5); the mean over all pairs of the
    batch; mean over rank differences of the mean over the batch's pairs (released GPT-2 code), or the sum of these
    means (released BART code)."""
    ranks: Literal["valid", "all"] = "valid"
    """Rank among the visible entries (the paper), or among all tokens of the row or source, those to come too (as
    released). Padding has no rank."""
    embedding: Literal["input", "output"] = "input"
    """Whose cosine ranks tokens: the input embedding (as released) or the output embedding (the paper). They are one in
    a model that ties them."""
    memory_values: Literal["inputs", "labels"] = "inputs"
    """Tokens that stored states stand for in the token loss; ``labels`` is what the released GPT-2 code does."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """``histalign:paper``, ``histalign:released,inputs``, ``histalign:labels``."""
        form = arguments[0] if arguments and arguments[0] in _FORMS else None
        values = arguments[1:] if form else arguments
        if len(values) > 1 or not set(values) <= set(_VALUES):
            raise ValueError(
                f"must be followed by nothing or one of {', '.join(_FORMS)}, and perhaps by 'inputs' or 'labels' "
                f"({','.join(arguments)!r} given)"
            )
        return {**_FORMS.get(form or "", {}), **({"memory_values": values[0]} if values else {})}

    def arguments(self) -> list[str]:
        """The form that agrees with these settings, and the memory's values where they are not that form's."""
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        for name, form in [(None, {}), *_FORMS.items()]:
            settings = {**usual, **form}
            if all(getattr(self, key) == settings[key] for key in ("base", "reduction", "ranks", "embedding")):
                own = [] if self.memory_values == settings["memory_values"] else [self.memory_values]
                return [*([name] if name else []), *own]
        return [] if self.memory_values == "inputs" else [self.memory_values]


@registry.register("histalign")
class HistAlign(Objective):
    """Token loss plus a ranking loss over the memory.

    Formula, with similarity ``s_tj`` of position t and entry j, positives i (entries that hold the target), negatives j
    (the other visible entries), and ranks r by cosine of embeddings to the target's::

        L = L_token + alpha * reduce_{t, i, j: r_j > r_i} max(0, s_tj - s_ti + margin (r_j - r_i))

    What it adds: stored states of the target come before those of similar words, and these before unrelated words, so
    the cache alone can predict. Costs: the similarities once more, and for positions whose target is in memory one
    search per entry; a sort per distinct target. ``offset_mean`` and ``offset_sum`` look at every pair.

    By default reduced so that the loss of a batch is the sum of what its rows give alone: the mean over the pairs of
    each position, with ranks among what it sees. ``histalign:paper`` is eq. 5 and 6, ``histalign:released`` and
    ``histalign:released-bart`` are the two released codes, which weigh pairs by counts over the whole batch.

    Source: HistAlign, eq. 5 and 6.

    Differs from the published code: padding has no rank; rank differences without any pair are skipped (released: NaN
    or an exception); a batch without positives has ranking loss 0; ties are broken by place; an entry that holds the
    target outranks all others even when another token has the same embedding.

    Examples:
        >>> from nextword.objectives import parse_objective
        >>> parse_objective("histalign:paper").reduction
        'pair_sum'
    """

    Config = HistAlignConfig

    def check(self, head: Head) -> None:
        """Only heads with stored tokens have anything to align, and only the decoder's have labels."""
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
        """Means over the pairs of the batch do."""
        if self.config.reduction in SUMS_OF_POSITIONS:
            return ""
        return f"{self.config.reduction} divides by counts of pairs over the whole batch"

    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Summed token loss plus the ranking loss, weighted so that one division by the tokens serves both."""
        assert isinstance(head, RemembersTokens)
        tokens = len(targets)
        # before the token loss, which keeps (N, S) tensors until the backward pass
        ranking = Alignment(self.config, head, context, targets).loss()
        seen = context.with_label_values() if self.config.memory_values == "labels" else context
        mode = "lm_only" if self.config.base == "mle" else "joint"
        token_loss = -head(seen, mode=mode).log_likelihood(targets)
        # a sum over positions is one over tokens already; means count once for every token of the batch they come from
        summed_up = ranking if self.config.reduction in SUMS_OF_POSITIONS else ranking * tokens
        return Loss(
            token_loss + self.config.alpha * summed_up,
            tokens,
            Loss.of(token_loss, tokens, token_loss=token_loss, ranking_loss=summed_up).parts,
        )


class _LaidOut(NamedTuple):
    """What some positions see of their memory in the order of its ranks; those without a pair are left out."""

    used: Int[Tensor, "M"]
    order: Int[Tensor, "M S"]
    memory: RankedMemory


@dataclass(frozen=True)
class Alignment:
    """The ranking loss of a batch, made chunk by chunk: of what has a number for each position and entry nothing stays.

    Args:
        config: The objective's settings.
        head: Gives the stored entries.
        context: At the N positions.
        targets: One at each.
    """

    config: HistAlignConfig
    head: Any
    context: Context
    targets: Int[Tensor, "N"]

    def loss(self) -> Float[Tensor, ""]:
        """The reduced hinges of all pairs."""
        states, inputs = self.context.states, self.context.inputs
        if not len(self.targets):
            return states.sum() * 0.0
        weigh = REDUCTIONS[self.config.reduction](self._memories())

        def hinges(chunk: slice, rows: list[Tensor], _: object) -> Tensor:
            context = replace(self._context(chunk), states=rows[0], inputs=rows[-1])
            entries: Entries = self.head.entries(context)
            scores = at_least_float32(entries.scores)
            weights, value = torch.zeros_like(scores), scores.new_zeros(())
            with torch.no_grad():
                found = self._laid_out(chunk, entries)
                if found is not None:
                    by_rank = weigh(found.memory)
                    value = (by_rank * found.memory.heights).sum()
                    weights[found.used] = torch.empty_like(by_rank).scatter_(1, found.order, by_rank)
            # the value is that of the heights, whose numbers are small; its gradient is the weights
            linear = (weights * scores).sum()
            return value + (linear - linear.detach())

        rows = [own[self._positions] for own in ([states] if inputs is states else [states, inputs])]
        return sum_with_gradient(hinges, self._chunks, rows, self._shared())

    def _memories(self) -> Iterator[RankedMemory]:
        """Those of all chunks, one after another."""
        with torch.no_grad():
            for chunk in self._chunks:
                found = self._laid_out(chunk, self.head.entries(self._context(chunk)))
                if found is not None:
                    yield found.memory

    @cached_property
    def _positions(self) -> Int[Tensor, "N"]:
        """Row after row, those with one target next to each other: their entries have one order."""
        return (self.context.row * (self.targets.max() + 1) + self.targets).argsort(stable=True)

    @cached_property
    def _chunks(self) -> list[slice]:
        context = self.context
        stored = context.memory if context.source is None else context.source
        assert stored is not None
        return row_chunks(len(self.targets), _BYTES * stored.ids.shape[1], context.states.device)

    def _shared(self) -> list[Tensor]:
        """What entries may depend on beside the position."""
        memory, source = self.context.memory, self.context.source
        found = list(self.head.parameters())
        found += [] if memory is None else memory.streams.values()
        found += [] if source is None else [source.states, *source.streams.values()]
        return [tensor for tensor in found if tensor.requires_grad]

    def _context(self, chunk: slice) -> Context:
        return self.context.at(self._positions[chunk])

    def _laid_out(self, chunk: slice, entries: Entries) -> _LaidOut | None:
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
                f"histalign: compares words by the model's {self.config.embedding} embedding, which is quantised, "
                "offloaded or divided among processes and cannot be read; load the model with this layer in memory and "
                "in full"
            )
        return found
