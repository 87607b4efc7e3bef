"""How often the words of a draft turned out right, by what spoke for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from nextword.model.drafting.drafter import Draft

_DEEPEST = 8
"""Words that agree, beyond which more of them change nothing."""
_WEIGHT = 2.0
"""How many trials the rougher estimate counts as."""
_NEVER_TRIED = 0.5
_FORGOTTEN = 512
"""Trials of one kind, at which the older half of their weight is dropped: texts change."""


class Acceptance:
    """Chances of drafted words, counted on the run.

    A word's chance is estimated from words of equal evidence behind which equally many words agreed; where these are
    few, from all behind which equally many agreed. Words never tried count as right half of the time, so they get
    tried.
    """

    def __init__(self) -> None:
        self._tried: Counter[Hashable] = Counter()
        self._right: Counter[Hashable] = Counter()

    def chance(self, draft: Draft, word: int) -> float:
        """Of the word at this place of a draft, where all before it are right."""
        found = _NEVER_TRIED
        for kind in reversed(list(_kinds(draft, word))):
            found = (self._right[kind] + _WEIGHT * found) / (self._tried[kind] + _WEIGHT)
        return found

    def expected(self, draft: Draft, count: int) -> list[float]:
        """For 0 to ``count`` words of a draft, how many of them will be accepted on average."""
        sums, running = [0.0], 1.0
        for word in range(min(count, len(draft.words))):
            running *= self.chance(draft, word)
            sums.append(sums[-1] + running)
        return sums + sums[-1:] * (count + 1 - len(sums))

    def count(self, draft: Draft, judged: int, accepted: int) -> None:
        """Notes that the first ``judged`` words were looked at, and that the first ``accepted`` were right."""
        for word in range(judged):
            for kind in _kinds(draft, word):
                self._tried[kind] += 1
                self._right[kind] += word < accepted
                if self._tried[kind] >= _FORGOTTEN:
                    self._tried[kind] //= 2
                    self._right[kind] //= 2


def _kinds(draft: Draft, word: int) -> Iterator[Hashable]:
    """What a word is counted as, the finest first."""
    agreed = min(draft.agreed + word, _DEEPEST)
    yield draft.evidence, agreed
    yield agreed
