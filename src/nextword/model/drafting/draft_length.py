"""How many words are drafted: as many as pay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence

from nextword.model.drafting.acceptance import Acceptance
from nextword.model.drafting.drafter import Draft
from nextword.model.drafting.pass_cost import PassCost

LONGEST = 10
"""Most words of a draft; a pass over more costs noticeably more than one over a single word."""
_PATIENCE, _RAREST = 32, 8
"""After so many guesses in vain, guesses become rarer by one pass each, down to one in so many passes."""


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
    def count_pass(self, texts: int, width: int, seconds: float) -> None:
        """Notes how long a pass took that read ``width`` words of each text."""


class FixedLength(DraftLength):
    """As many words as there are, up to ``longest``."""

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """The longest draft, cut."""
        return min(self.longest, max((len(draft.words) for draft in drafts if draft is not None), default=0))

    def count_draft(self, draft: Draft, judged: int, accepted: int) -> None:
        """Nothing is learned."""

    def count_pass(self, texts: int, width: int, seconds: float) -> None:
        """Nothing is learned."""


class LearnedLength(DraftLength):
    """The number of words that gives most words for the time, by what was accepted and by what passes cost so far.

    Where nothing that is guessed gets accepted, guessing itself becomes rare, so that a text which copies nothing is
    written as fast as without drafts.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__(longest)
        self.acceptance = Acceptance()
        self._costs: defaultdict[int, PassCost] = defaultdict(PassCost)
        self._texts = 1
        self._vain = 0
        self._until = 0

    def asks(self) -> bool:
        """Seldom after many guesses in vain."""
        self._until -= 1
        if self._until > 0:
            return False
        self._vain += 1  # taken back when a word is accepted
        self._until = min(_RAREST, max(1, self._vain - _PATIENCE))
        return True

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """Where expected words over cost is largest."""
        expected = [self.acceptance.expected(draft, self.longest) for draft in drafts if draft is not None]
        longest = min(self.longest, max((len(draft.words) for draft in drafts if draft is not None), default=0))
        cost = self._costs[len(drafts)]
        rates = [
            (len(drafts) + sum(of[count] for of in expected)) / cost.ratio(1 + count) for count in range(longest + 1)
        ]
        return rates.index(max(rates))

    def count_draft(self, draft: Draft, judged: int, accepted: int) -> None:
        """Learns from it."""
        self.acceptance.count(draft, judged, accepted)
        if accepted:
            self._vain = self._until = 0

    def count_pass(self, texts: int, width: int, seconds: float) -> None:
        """Learns from it."""
        self._costs[texts].count(width, seconds)
