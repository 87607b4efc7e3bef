"""Classes of tokens: consecutive pieces of the vocabulary in order of frequency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from nextword.functional.frequency.counts import checked


@dataclass(frozen=True, eq=False)
class FrequencyClasses:
    """A partition of the vocabulary.

    Attributes:
        order: Token ids by decreasing count; of equal counts, the lower id first.
        boundaries: Where each class ends in that order, exclusive; the last is V.

    >>> classes = FrequencyClasses.of([1, 5, 3, 0], [1, 4])
    >>> classes.order.tolist(), classes.count, classes.sizes, classes.token_class.tolist()
    ([1, 2, 0, 3], 2, (1, 3), [1, 0, 1, 1])
    """

    order: Int[np.ndarray, "V"]
    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        ends = (0, *self.boundaries)
        if ends[-1] != len(self.order) or any(one >= next_one for one, next_one in pairwise(ends)):
            raise ValueError(
                f"classes of tokens: boundaries must ascend from above 0 to the {len(self.order)} tokens "
                f"({list(self.boundaries)} given)"
            )

    @classmethod
    def of(cls, counts: Sequence[int] | Int[np.ndarray, "V"], boundaries: Sequence[int]) -> FrequencyClasses:
        """Classes that end there.

        Args:
            counts: How often each token id occurs.
            boundaries: Exclusive ends in the order of decreasing count.
        """
        return cls(by_frequency(counts), tuple(int(end) for end in boundaries))

    @property
    def count(self) -> int:
        """K, the number of classes."""
        return len(self.boundaries)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of each class."""
        return tuple(np.diff(self.boundaries, prepend=0).tolist())

    @cached_property
    def token_class(self) -> Int[np.ndarray, "V"]:
        """Class of every token id, 0 the most frequent."""
        found = np.empty_like(self.order)
        found[self.order] = np.repeat(np.arange(self.count), self.sizes)
        return found

    def tokens(self, number: int) -> Int[np.ndarray, "K"]:
        """The token ids of one class, the most frequent first."""
        return self.order[(0, *self.boundaries)[number] : self.boundaries[number]]

    def masses(self, counts: Sequence[int] | Int[np.ndarray, "V"]) -> Int[np.ndarray, "K"]:
        """Occurrences of all tokens of each class."""
        cumulative = np.cumsum(checked(np.asarray(counts), "counts")[self.order])
        return np.diff(cumulative[np.array(self.boundaries) - 1], prepend=0)


def by_frequency(counts: Sequence[int] | Int[np.ndarray, "V"]) -> Int[np.ndarray, "V"]:
    """Token ids by decreasing count; of equal counts, the lower id first.

    Raises:
        ValueError: These are no counts.
    """
    return np.argsort(-checked(np.asarray(counts), "counts"), kind="stable")
