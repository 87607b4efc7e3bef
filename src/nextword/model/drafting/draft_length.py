"""How many words are drafted: as many as pay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence

from nextword.model.drafting.acceptance import Acceptance
from nextword.model.drafting.drafter import Draft
from nextword.model.drafting.pass_cost import PassCost
from nextword.model.drafting.payoff import Payoff

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
