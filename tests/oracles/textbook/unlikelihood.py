"""Textbook forms of unlikelihood, token by token and over continuations, by loops.

Targets are as in :mod:`reference.objectives`. Nothing here imports the library.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tests.oracles.textbook.objectives import IGNORED, kept


def log_others(log_probs: Tensor, token: int) -> Tensor:
    """``log(1 - P(token))`` as the log of the summed probability of every other token."""
    others = torch.cat([log_probs[:token], log_probs[token + 1 :]])
    return torch.logsumexp(others[others != -torch.inf], 0)


def candidates(targets: Tensor, b: int, t: int) -> set[int]:
    """Targets of row b before t, each once, without that of t. Source: Welleck et al. 2020, eq. 4."""
    return set(targets[b, :t].tolist()) - {IGNORED, int(targets[b, t])}


def token_sum(log_probs: Tensor, targets: Tensor, *, always: frozenset[int] = frozenset()) -> Tensor:
    """``sum_t sum_{c in C_t} -log(1 - P_t(c))``, without the likelihood.

    Args:
        log_probs: (B, T, V).
        targets: (B, T).
        always: Tokens that are candidates everywhere (the released code: padding).
    """
    total = log_probs.new_zeros(())
    for b, t in kept(targets):
        for candidate in candidates(targets, b, t) | always - {int(targets[b, t])}:
            total = total - log_others(log_probs[b, t], candidate)
    return total


def repeated(tokens: list[int], n: int) -> list[bool]:
    """Tokens in an n-gram that stood earlier in the list. Source: Welleck et al. 2020, section 5.2."""
    marks = [False] * len(tokens)
    seen: set[tuple[int, ...]] = set()
    for start in range(len(tokens) - n + 1):
        ngram = tuple(tokens[start : start + n])
        if ngram in seen:
            marks[start : start + n] = [True] * n
        seen.add(ngram)
    return marks


def sequence_sum(log_probs: Tensor, tokens: Tensor, n: int) -> Tensor:
    """``sum -log(1 - P(token))`` over the repeated tokens of continuations.

    Args:
        log_probs: Of the distribution that each token was taken from, (R, S, V).
        tokens: (R, S).
        n: Tokens of an n-gram.
    """
    total = log_probs.new_zeros(())
    for r, row in enumerate(tokens.tolist()):
        for s, marked in enumerate(repeated(row, n)):
            if marked:
                total = total - log_others(log_probs[r, s], row[s])
    return total
