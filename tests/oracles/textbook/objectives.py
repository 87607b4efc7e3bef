"""Textbook forms of the objectives: likelihood, TRIME and HistAlign's ranking loss, by loops.

Targets: ``targets[b, t]`` is the token that position t has to predict, -100 where there is none. For a decoder-only
model :func:`shifted` makes them of labels; an encoder-decoder model's labels are targets already.
Nothing here imports the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tests.oracles.textbook.memory import Memory

IGNORED = -100


def shifted(labels: Tensor) -> Tensor:
    """Targets of a decoder-only model: position t predicts ``labels[t + 1]``, the last position nothing. (B, T)."""
    return torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)], 1)


def kept(targets: Tensor) -> list[tuple[int, int]]:
    """Places (b, t) that have a target, row by row."""
    return [(b, t) for b, t in (targets != IGNORED).nonzero().tolist()]


def mle_sum(log_probs: Tensor, targets: Tensor) -> Tensor:
    """``sum_t -log P_t(y_t)`` over the positions that have a target; 0 where none has.

    Args:
        log_probs: (B, T, V).
        targets: (B, T).
    """
    total = log_probs.new_zeros(())
    for b, t in kept(targets):
        total = total - log_probs[b, t, targets[b, t]]
    return total


def mle(log_probs: Tensor, targets: Tensor) -> Tensor:
    """``mean_t -log P_t(y_t)``: one division of the sum by the number of targets (at least 1)."""
    return mle_sum(log_probs, targets) / max(1, len(kept(targets)))


def trime_sum(logits: Tensor, memory: Memory, targets: Tensor) -> Tensor:
    """``sum_t -log [(exp z_y + sum_{j: x_j = y} exp s_tj) / (sum_w exp z_w + sum_j exp s_tj)]``, j over what t sees.

    The same number as :func:`mle_sum` of the joint distribution. Source: Zhong et al. 2022 (TRIME), eq. 4.

    Args:
        logits: Scores of the output layer, (B, T, V).
        memory: What is stored; see :func:`with_label_values` for the values that the released HistAlign code takes.
        targets: (B, T).
    """
    total = logits.new_zeros(())
    for b, t in kept(targets):
        stored, values = memory.seen(b, t)
        y = targets[b, t]
        right = torch.cat([logits[b, t, y, None], stored[values == y]])
        total = total - torch.logsumexp(right, 0) + torch.logsumexp(torch.cat([logits[b, t], stored]), 0)
    return total


def trime(logits: Tensor, memory: Memory, targets: Tensor) -> Tensor:
    """Mean of :func:`trime_sum` over the positions that have a target."""
    return trime_sum(logits, memory, targets) / max(1, len(kept(targets)))


def with_label_values(memory: Memory, labels: Tensor) -> Memory:
    """A decoder-only memory whose entry j stands for ``labels[j + 1]`` instead of ``x_{j+1}``, in the token loss only.

    An entry whose label is -100 equals no target but keeps its mass in the denominator.
    Source: released HistAlign code (where prompts are not labelled, its TRIME loss teaches the model to shun memory).
    """
    return replace(memory, values=labels[:, 1:])


@dataclass(frozen=True)
class Pair:
    """One positive i and one negative j behind it."""

    hinge: Tensor
    offset: int
    position: tuple[int, int]


def ranks(memory: Memory, target: int, embedding: Tensor, among: Sequence[int], b: int) -> dict[int, int]:
    """Rank of each entry in ``among``: 0 for the one whose token is nearest the target, ties in order of place.

    Nearness is the cosine of input embeddings, computed once per token so that equal tokens tie exactly.
    Source: HistAlign, section 3.2.
    """
    distinct = {int(memory.values[b, j]) for j in among}
    unit = {v: embedding[v] / embedding[v].norm() for v in distinct | {target}}
    cosine = {v: float(unit[v] @ unit[target]) for v in distinct}
    order = sorted(among, key=lambda j: -cosine[int(memory.values[b, j])])  # Python's sort is stable
    return {j: rank for rank, j in enumerate(order)}


def pairs(
    memory: Memory,
    targets: Tensor,
    embedding: Tensor,
    margin: float,
    rank_over: str,
    stored: Tensor | None = None,
) -> Iterator[Pair]:
    """``hinge = max(0, s_tj - s_ti + margin (r_j - r_i))`` of every (t, i, j) with ``r_j > r_i``.

    i runs over the visible entries that hold the target of t, j over the other visible ones.
    Source: HistAlign, eq. 5.

    Args:
        memory: What is stored, with tokens of the input as values.
        targets: (B, T).
        embedding: Input (released code) or output embedding (the paper), (V, D); gives an order only and gets no
            gradient.
        margin: lambda.
        rank_over: "all": ranks in the sort over all entries of the row, future ones too (released code).
            "valid": over the visible ones (the paper).
        stored: (B, S), False at entries that "all" leaves out, padding; None: none (released code).
    """
    for b, t in kept(targets):
        y = int(targets[b, t])
        visible = memory.visible[b, t].nonzero()[:, 0].tolist()
        every = [j for j in range(memory.values.shape[1]) if stored is None or bool(stored[b, j])]
        among = {"all": every, "valid": visible}[rank_over]
        rank = ranks(memory, y, embedding.detach(), among, b)
        for i in visible:
            if int(memory.values[b, i]) != y:
                continue
            for j in visible:
                offset = rank[j] - rank[i]
                if int(memory.values[b, j]) == y or offset <= 0:
                    continue
                hinge = torch.relu(memory.scores[b, t, j] - memory.scores[b, t, i] + margin * offset)
                yield Pair(hinge, offset, (b, t))


def reduce_pairs(found: Sequence[Pair], reduction: str) -> Tensor:
    """One number of all pairs of a batch; 0 where there is none.

    - ``pair_sum``: their sum (the paper, eq. 5).
    - ``pair_mean``: their mean.
    - ``position_mean``: for every position that has pairs, their mean; of these, the sum.
    - ``offset_mean``: for every rank difference that occurs, the mean of its pairs; of these, the mean (released GPT-2
      code, which raises where there is no pair).
    - ``offset_sum``: the same means, summed (released BART code, which gives NaN where a rank difference is missing).
    """
    if not found:
        return torch.zeros((), dtype=torch.float64)
    hinges = torch.stack([pair.hinge for pair in found])
    if reduction == "pair_sum":
        return hinges.sum()
    if reduction == "pair_mean":
        return hinges.mean()
    if reduction == "position_mean":
        at = torch.tensor([pair.position for pair in found])
        return torch.stack([hinges[(at == position).all(1)].mean() for position in at.unique(dim=0)]).sum()
    offsets = torch.tensor([pair.offset for pair in found])
    means = torch.stack([hinges[offsets == offset].mean() for offset in offsets.unique()])
    return {"offset_mean": means.mean, "offset_sum": means.sum}[reduction]()


def ranking(
    memory: Memory,
    targets: Tensor,
    embedding: Tensor,
    margin: float = 0.001,
    reduction: str = "offset_mean",
    rank_over: str = "all",
    stored: Tensor | None = None,
) -> Tensor:
    """HistAlign's ranking loss: :func:`pairs` reduced by :func:`reduce_pairs`."""
    return reduce_pairs(list(pairs(memory, targets, embedding, margin, rank_over, stored)), reduction)


def histalign(token_loss: Tensor, ranking_loss: Tensor, alpha: float = 1.0) -> Tensor:
    """``L = L_token + alpha L_rank``, both already reduced.

    ``L_token`` is :func:`trime` (released code) or :func:`mle` of the softmax alone (the paper, eq. 6).
    """
    return token_loss + alpha * ranking_loss


def local_visibility(batch: int, length: int) -> Tensor:
    """Entry j is seen from t when ``j < t``: (B, T, T). Source: TRIME, local memory (entry j is (key_j, target_j))."""
    return torch.ones(length, length).tril(-1).bool().expand(batch, -1, -1)


def long_visibility(batch: int, length: int) -> Tensor:
    """Everything before t in the batch laid end to end: (1, B T, B T). Source: TRIME, long-term memory."""
    return local_visibility(1, batch * length)


def external_visibility(batch: int, length: int, own: bool = True) -> Tensor:
    """All entries of other sequences, and of the own one those before t if ``own``: (1, B T, B T).

    Source: TRIME, external memory (own is left out with probability cross-sent-ratio).
    """
    row = torch.arange(batch).repeat_interleave(length)
    other = row[:, None] != row[None, :]
    before = torch.ones(batch * length, batch * length).tril(-1).bool()
    return (other | before if own else other)[None]
