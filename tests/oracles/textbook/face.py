"""Textbook forms of FACE: counts, weights, penalties, by loops and in float64.

Targets are as in :mod:`reference.objectives`. Nothing here imports the library. Source: Jiang et al. 2019.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tests.oracles.textbook.objectives import kept


def counts_of(rows: list[list[int]], vocab_size: int, start: int | None = None, end: int | None = None) -> list[int]:
    """Occurrences of each token; of a row, what stands before its first end and is not a start at its beginning."""
    found = [0] * vocab_size
    for row in rows:
        told = row[1:] if row and row[0] == start else row
        for token in told:
            if token == end:
                break
            found[token] += 1
    return found


def class_weights(counts: list[int]) -> list[float]:
    """Eq. 10: ``1 - RF_i / max RF``, divided by the mean; 1 where that is 0 / 0."""
    total, largest = sum(counts), max(counts)
    if total == 0:
        return [1.0] * len(counts)
    raw = [1 - (count / total) / (largest / total) for count in counts]
    mean = sum(raw) / len(raw)
    return [weight / mean for weight in raw] if mean else [1.0] * len(counts)


def token_weight(counts: list[int], variant: str, predicted: int, target: int) -> float:
    """Weight of one position: by eq. 10 ("pre") or eq. 11 ("post")."""
    if variant == "pre":
        return class_weights(counts)[target]
    return 1 + max(0, counts[predicted] - counts[target]) / max(1, sum(counts))


def entropy(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Mean entropy of the positions that have a target."""
    found = [-(log_probs[b, t].exp() * log_probs[b, t]).sum() for b, t in kept(targets)]
    return torch.stack(found).mean()


def loss_sum(
    log_probs: Tensor, targets: Tensor, counts: list[int], variant: str, penalty: str | None = None, beta: float = 2.5
) -> Tensor:
    """Loss before it is divided by the number of targets.

    Args:
        log_probs: (B, T, V).
        targets: (B, T).
        counts: With those of this batch.
        variant: "pre" or "post".
        penalty: One of the four, or None.
        beta: Weight of "cp".
    """
    total = log_probs.new_zeros(())
    for b, t in kept(targets):
        y = int(targets[b, t])
        weight = token_weight(counts, variant, int(log_probs[b, t].argmax()), y)
        total = total - weight * log_probs[b, t, y]
    if penalty is None:
        return total
    h = entropy(log_probs, targets)
    return {
        "cp": total - beta * h,
        "cpf": total + 1 / h,
        "cpfw": total * (1 + 1 / h),
        "cpfwn": total * (math.log(log_probs.shape[-1]) / h),
    }[penalty]
