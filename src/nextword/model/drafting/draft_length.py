"""How many words are drafted: as many as pay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

from nextword.model.drafting.drafter import Draft

LONGEST = 10
"""Most words of a draft; a pass over more costs noticeably more than one over a single word."""
_RAREST = 8
"""Where guesses do not pay, one is made in so many passes, to see whether they do again."""
_SHARE = 0.2
"""Of the latest guess in the mean time of one."""


class DraftLength(ABC):
    """Decides before each pass whether to guess, and of how many words the pass judges.

    Attributes:
        longest: Most words of a draft.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        if longest < 1:
            raise ValueError(f"longest: must be at least 1 ({longest} given)")
        self.longest = longest

    def asks(self) -> bool:
        """Whether to guess before the next pass at all."""
        return True

    @abstractmethod
    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """How many words of these drafts, one for each text, the next pass is to judge; 0: none."""

    @abstractmethod
    def count_draft(self, draft: Draft, judged: int, accepted: int) -> None:
        """Notes how many words of a draft were judged, and how many of them accepted."""

    @abstractmethod
    def count_pass(self, texts: int, width: int, seconds: float, guessing: float | None = None) -> None:
        """Notes how long a pass took.

        Args:
            texts: How many it was over.
            width: How many words it read of each.
            seconds: Of the pass.
            guessing: Of the guess before it; None: nothing was guessed.
        """


class FixedLength(DraftLength):
    """As many words as there are, up to ``longest``."""

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """The longest draft, cut."""
        return min(self.longest, max((len(draft.words) for draft in drafts if draft is not None), default=0))

    def count_draft(self, draft: Draft, judged: int, accepted: int) -> None:
        """Nothing is learned."""

    def count_pass(self, texts: int, width: int, seconds: float, guessing: float | None = None) -> None:
        """Nothing is learned."""


class LearnedLength(DraftLength):
    """The number of words that gives most words for the time, by what was accepted and by what passes cost so far.

    Where guessing itself does not pay, it becomes rare, so that a text which copies nothing is written as fast as
    without drafts.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__(longest)
        self.acceptance = Acceptance()
        self.payoff = Payoff()
        self._costs: defaultdict[int, PassCost] = defaultdict(PassCost)
        self._guessing = 0.0
        self._wait = 1  # one pass without a guess, beside which all others are judged

    def asks(self) -> bool:
        """Seldom where it does not pay; after an accepted word at once, since copied words come in runs."""
        if self._wait > 0:
            self._wait -= 1
            return False
        self._wait = 0 if self.payoff.pays else _RAREST - 1
        return True

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """Where expected words over cost is largest; the guess is part of the cost, whatever is made of it."""
        expected = [self.acceptance.expected(draft, self.longest) for draft in drafts if draft is not None]
        longest = min(self.longest, max((len(draft.words) for draft in drafts if draft is not None), default=0))
        cost = self._costs[len(drafts)]
        guess = self._guessing / cost.plain if cost.plain else 0.0
        rates = [
            (len(drafts) + sum(of[count] for of in expected)) / (guess + cost.ratio(1 + count))
            for count in range(longest + 1)
        ]
        return rates.index(max(rates))

    def count_draft(self, draft: Draft, judged: int, accepted: int) -> None:
        """Learns from it."""
        self.acceptance.count(draft, judged, accepted)
        self.payoff.count_accepted(accepted)
        if accepted:
            self._wait = 0

    def count_pass(self, texts: int, width: int, seconds: float, guessing: float | None = None) -> None:
        """Learns from it."""
        cost = self._costs[texts]
        cost.count(width, seconds)
        if guessing is None:
            return
        self._guessing += _SHARE * (guessing - self._guessing) if self._guessing else guessing
        if cost.plain:
            self.payoff.count_pass(texts, guessing + seconds, cost.plain)


# -- How often the words of a draft turned out right, by what spoke for them.

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


# -- What a pass over several words costs beside a pass over one, measured on the run.

_OUTLIER = 3.0
"""Times the mean, more than which a pass does not count: the machine did something else."""
_UNMEASURED = 0.02
"""Part of a pass over one word that each further word is taken to cost, before that is measured."""


_DOUBT = 0.01
"""Of the way to that cost which a width goes with each pass of another width."""


class PassCost:
    """Seconds of passes by their width, the words that they read in each text."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    @property
    def plain(self) -> float | None:
        """Seconds of a pass over one word; None: there was none yet."""
        return self._seconds.get(1)

    def count(self, width: int, seconds: float) -> None:
        """Notes one pass."""
        self._doubt(width)
        mean = self._seconds.get(width)
        if mean is None:
            self._seconds[width] = seconds
        else:
            self._seconds[width] = mean + _SHARE * (min(seconds, _OUTLIER * mean) - mean)

    def _doubt(self, measured: int) -> None:
        """Lets dear widths come nearer to what they cost unmeasured, or one slow pass would rule them out for ever."""
        for width, seconds in self._seconds.items():
            usual = self._seconds.get(1, seconds) * (1 + _UNMEASURED * (width - 1))
            if width != measured and seconds > usual:
                self._seconds[width] = seconds + _DOUBT * (usual - seconds)

    def ratio(self, width: int) -> float:
        """What a pass of this width costs in passes over one word, at least 1.

        A width that was not measured lies on the line between its measured neighbours.
        """
        if width == 1 or 1 not in self._seconds:
            return 1 + _UNMEASURED * (width - 1)
        below = max(one for one in self._seconds if one <= width)
        above = min((one for one in self._seconds if one > width), default=None)
        if below == width or above is None:
            slope = _UNMEASURED * self._seconds[1]
        else:
            slope = (self._seconds[above] - self._seconds[below]) / (above - below)
        return max(1.0, (self._seconds[below] + slope * (width - below)) / self._seconds[1])


# -- Whether guessing pays, judged by the time that it took and the words that it gave.

_TRIED = 16
"""Passes after a guess, before which nothing is concluded."""
_KEPT = 1 - 1 / 32
"""Of what is known, what one more pass leaves: texts change."""


class Payoff:
    """Seconds of the passes that a guess came before, the guess included, beside what their words cost without.

    A pass over one word without a guess costs so many seconds; a pass with a guess pays where its words would have
    taken longer that way. Drafts may be accepted and still not pay: a guess takes its time, and so does a wider pass.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._spent = self._worth = self._word = 0.0

    @property
    def pays(self) -> bool:
        """Whether to go on guessing."""
        return self._passes < _TRIED or self._worth >= self._spent

    def count_pass(self, texts: int, seconds: float, plain: float) -> None:
        """Notes a pass, with one word for each text.

        Args:
            texts: How many.
            seconds: Of guess and pass.
            plain: Seconds of a pass over one word of each.
        """
        self._passes += 1
        self._word = plain / texts
        self._spent = _KEPT * self._spent + seconds
        self._worth = _KEPT * self._worth + plain

    def count_accepted(self, words: int) -> None:
        """Notes words that the last pass gave besides."""
        self._worth += words * self._word
