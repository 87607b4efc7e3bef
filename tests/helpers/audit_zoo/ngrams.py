"""Right scorers that are a table: an n-gram model, and mixtures of it with what was read before."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.helpers.audit_zoo.planting import right

VOCABULARY = 60


def table(rows: int, columns: int, seed: int, spread: float = 1.5) -> Tensor:
    """Random numbers in double precision, the same each time."""
    return spread * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LAST, BEFORE = (table(VOCABULARY + 1, VOCABULARY, seed) for seed in (1, 2))
"""What the last token and the one before it add to the score of each token."""
KEYS = table(VOCABULARY, 8, seed=3, spread=0.7)
"""How alike two tokens are to a memory."""


@right
class NGram:
    """A trigram model: log-probabilities of the next token, asked with beginnings of texts."""

    vocabulary = VOCABULARY
    precision = "float64"

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities (N, V)."""
        return torch.stack([self.log_probs(list(prefix)) for prefix in prefixes])

    def scores(self, prefix: list[int]) -> Tensor:
        """Unnormalised, (V,)."""
        before, last = [VOCABULARY, VOCABULARY, *prefix][-2:]
        return LAST[last] + BEFORE[before]

    def log_probs(self, prefix: list[int]) -> Tensor:
        """After one beginning, (V,)."""
        return self.scores(prefix).log_softmax(-1)


@right
class SinglePrecision(NGram):
    """The trigram model in single precision."""

    precision = "float32"

    def scores(self, prefix: list[int]) -> Tensor:
        return super().scores(prefix).float()


class Mixed(NGram):
    """The n-gram model, and with probability ``SHARE`` what a memory says; alone where there is no memory."""

    SHARE = 0.3

    def log_probs(self, prefix: list[int]) -> Tensor:
        language = super().log_probs(prefix).exp()
        memory = self.memory(prefix)
        if not bool(memory.any()):
            return language.log()
        return self.blend(language, memory).log()

    def blend(self, language: Tensor, memory: Tensor) -> Tensor:
        """Of two distributions (V,) one."""
        return (1 - self.SHARE) * language + self.SHARE * memory

    def memory(self, prefix: list[int]) -> Tensor:
        """Its distribution (V,), or zeros where nothing was remembered."""
        raise NotImplementedError


@right
class UnigramCache(Mixed):
    """An n-gram model mixed with the relative frequencies of the tokens so far."""

    def memory(self, prefix: list[int]) -> Tensor:
        counts = torch.bincount(torch.tensor(prefix, dtype=torch.long), minlength=VOCABULARY)
        return counts.double() / max(1, len(prefix))


@right
class Pointer(Mixed):
    """An n-gram model mixed with attention over the tokens so far, as a pointer network."""

    def memory(self, prefix: list[int]) -> Tensor:
        ids = torch.tensor(prefix, dtype=torch.long)
        return torch.zeros(VOCABULARY, dtype=torch.float64).index_add(0, ids, self.attention(ids))

    def attention(self, ids: Tensor) -> Tensor:
        """What each position gets, (S,)."""
        return (KEYS[ids] @ KEYS[ids[-1]]).softmax(-1) if len(ids) else torch.zeros(0, dtype=torch.float64)
