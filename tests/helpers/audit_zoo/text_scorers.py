"""Right scorers of whole texts: what is read before a token, and nothing else, says how probable it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle

import torch
from torch import Tensor

from tests.helpers.audit_zoo.ngrams import VOCABULARY, NGram, Pointer, UnigramCache
from tests.helpers.audit_zoo.planting import right


@right
class WholeTexts:
    """The pointer, asked for the distributions of whole texts as a network is."""

    vocabulary = VOCABULARY
    precision = "float64"

    def __init__(self) -> None:
        self.model = Pointer()

    def text_distributions(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """A matrix (T, V) for each text."""
        return [torch.stack([self.row(list(text), place) for place in range(len(text))]) for text in texts]

    def row(self, text: list[int], place: int) -> Tensor:
        """What the token at a position is scored with, (V,)."""
        return self.model.log_probs(text[:place])


@right
class Totals(UnigramCache):
    """The n-gram model with a cache, asked for next tokens, the tokens of a text, and its total."""

    def text_log_probs(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """For each text (T,)."""
        return [self.tokens(list(text)) for text in texts]

    def tokens(self, text: list[int]) -> Tensor:
        """The log-probability of each token, (T,)."""
        return torch.stack([self.log_probs(text[:place])[one] for place, one in enumerate(text)])

    def text_totals(self, texts: Sequence[Sequence[int]]) -> list[float]:
        """For each text a number."""
        return [float(self.tokens(list(text)).sum()) for text in texts]


@right
class DynamicEvaluation:
    """Counts which token follows which while it reads a text, and starts anew with each: says observed tokens only."""

    vocabulary = VOCABULARY
    precision = "float64"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets everything that was read."""
        self.followers = torch.full((VOCABULARY + 1, VOCABULARY), 0.2, dtype=torch.float64)

    def text_log_probs(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """For each text (T,)."""
        return [self.text(list(text)) for text in texts]

    def text(self, text: list[int]) -> Tensor:
        """Of one text (T,)."""
        self.reset()
        return torch.stack([self.step(last, one) for last, one in zip([VOCABULARY, *text], text, strict=False)])

    def step(self, last: int, one: int) -> Tensor:
        """Scores a token, then learns it."""
        found = self.probability(last, one)
        self.learn(last, one)
        return found

    def probability(self, last: int, one: int) -> Tensor:
        """Its logarithm."""
        return (self.followers[last, one] / self.followers[last].sum()).log()

    def learn(self, last: int, one: int) -> None:
        """One more."""
        self.followers[last, one] += 1


@right
class Sampled(NGram):
    """The trigram model, which also draws."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(5)

    def sample(self, prefix: Sequence[int], count: int) -> list[int]:
        """Tokens that come next."""
        drawn = torch.multinomial(self.chances(list(prefix)), count, replacement=True, generator=self.generator)
        return [int(one) for one in drawn]

    def chances(self, prefix: list[int]) -> Tensor:
        """What is drawn from, (V,)."""
        return self.log_probs(prefix).exp()


@right
class Stepwise(UnigramCache):
    """The n-gram model with a cache that is kept between steps."""

    def text_distributions(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """Read at once."""
        return [torch.stack([self.log_probs(list(text[:place])) for place in range(len(text))]) for text in texts]

    def in_steps(
        self, texts: Sequence[Sequence[int]], sizes: Sequence[int], order: Sequence[int] | None
    ) -> list[Tensor]:
        """Read in steps."""
        left, kept = [list(text) for text in texts], [list[int]() for _ in texts]
        rows: list[list[Tensor]] = [[] for _ in texts]
        for step, size in enumerate(cycle(sizes)):
            for row, old, text in zip(rows, kept, left, strict=True):
                row += [self.log_probs([*old, *text[:place]]) for place in range(len(text[:size]))]
            kept = [self.keep(old, text[:size]) for old, text in zip(kept, left, strict=True)]
            left = [text[size:] for text in left]
            if step == 0 and order is not None:
                left, rows, kept = [left[i] for i in order], [list(rows[i]) for i in order], self.moved(kept, order)
            if not left[0]:
                break
        return [torch.stack(row) for row in rows]

    def keep(self, kept: list[int], new: list[int]) -> list[int]:
        """What is kept after a step."""
        return [*kept, *new]

    def moved(self, kept: list[list[int]], order: Sequence[int]) -> list[list[int]]:
        """What is kept, in another order."""
        return [list(kept[i]) for i in order]


@right
class Bytes:
    """A model of bytes, all equally likely, which is also asked for bits and bytes of texts in characters."""

    vocabulary = 256

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        return torch.full((len(prefixes), self.vocabulary), -math.log(self.vocabulary), dtype=torch.float64)

    def bits_and_bytes(self, texts: Sequence[str]) -> list[tuple[float, int]]:
        """For each text its bits and its bytes."""
        return [(self.bits(text), self.size(text)) for text in texts]

    def bits(self, text: str) -> float:
        """Of all bytes."""
        return 8.0 * len(text.encode())

    def size(self, text: str) -> int:
        """Bytes of the text."""
        return len(text.encode())
