"""The argument of ``generate(draft=...)``: the drafter, the draft length, and statistics of the drafts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from nextword.functional.copy_scores import TextRead
from nextword.model.speculative_decoding.drafter import Draft, Drafter, drafters


@dataclass(frozen=True)
class DraftOutcome:
    """A draft and its outcome.

    Attributes:
        row: Index of the text in the batch.
        begin: Number of tokens generated for that text before the draft.
        tokens: The drafted tokens that a pass verified.
        accepted: Number of leading tokens that were accepted.
        found: Text and position from which the draft was copied, see ``Draft``.
    """

    row: int
    begin: int
    tokens: tuple[int, ...]
    accepted: int
    found: tuple[TextRead, int] | None

    words = property(attrgetter("tokens"))  # the old name


class SpeculativeDecoding:
    """Settings and statistics of speculative decoding. Calls of ``generate`` may share an object and its statistics.

    Args:
        by: Drafter: "head" (the tokens after the position from which a copying head copied the last token), "prompt"
            (the tokens after an earlier occurrence of the last token), or an instance of your own ``Drafter`` class.
        length: Object that chooses the number of draft tokens for each pass, such as ``FixedLength(5)``. None:
            ``LearnedLength()``, which learns during generation which number gives the most tokens per second.

    Attributes:
        verified: Outcomes of all drafts of the latest call, in order.
        tokens: Number of tokens generated in all calls.
        passes: Number of passes in all calls. A pass over a batch counts once for each unfinished text.

    Raises:
        UnknownNameError: If ``by`` is a string, but not the name of a drafter.
    """

    def __init__(self, by: str | Drafter = "head", length: DraftLength | None = None) -> None:
        self.drafter = drafters.get(by)() if isinstance(by, str) else by
        self.length = LearnedLength() if length is None else length
        self.verified: list[DraftOutcome] = []
        self.tokens = 0
        self.passes = 0

    @property
    def tokens_per_pass(self) -> float:
        """Mean number of tokens per pass; 1 if there were no drafts, 0 before the first call."""
        return self.tokens / max(1, self.passes)

    # the old names
    judged = property(attrgetter("verified"))
    words = property(attrgetter("tokens"))
    words_a_pass = property(attrgetter("tokens_per_pass"))

    def count(self, row: int, begin: int, draft: Draft | None, *, offered: int, accepted: int, written: int) -> None:
        """Records the outcome of one pass for one text.

        Args:
            row: Index of the text in the batch.
            begin: Number of tokens generated for this text before the draft.
            draft: The draft; None if there was no draft.
            offered: Number of drafted tokens that the pass verified.
            accepted: Number of accepted tokens, up to the first rejected one.
            written: Number of new tokens: the accepted tokens, and usually one more.
        """
        self.tokens += written
        self.passes += 1
        if draft is not None and offered:
            self.length.count_draft(draft, min(written, offered), accepted)  # tokens after a rejection are unverified
            self.verified.append(DraftOutcome(row, begin, tuple(draft.tokens[:offered]), accepted, draft.found))


def speculative_decoding_of(draft: Any) -> SpeculativeDecoding | None:
    """Converts the argument ``draft`` of ``generate`` to a ``SpeculativeDecoding``; None for an assistant model.

    Raises:
        ValueError: If ``draft`` has another type, or is not the name of a drafter.
    """
    if isinstance(draft, SpeculativeDecoding):
        return draft
    if isinstance(draft, str | Drafter):
        return SpeculativeDecoding(draft)
    if hasattr(draft, "generate"):
        return None
    raise ValueError(
        f"draft: must be 'head', 'prompt', a model or a SpeculativeDecoding ({type(draft).__name__} given); leave it "
        "out for one token per pass"
    )


# -- The number of draft tokens, chosen for the highest speed.

LONGEST = 10
"""Maximum number of draft tokens. With more tokens, a pass is noticeably slower than a pass over a single token."""
_RAREST = 8
"""If drafts do not save time, one draft is made per this number of passes, to test whether drafts save time now."""
_SHARE = 0.2
"""Weight of the latest draft in the running mean of drafting times."""


class DraftLength(ABC):
    """Decides before each pass whether to draft, and how many tokens to verify.

    Attributes:
        longest: Maximum number of tokens of a draft.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        if longest < 1:
            raise ValueError(f"longest: must be at least 1 ({longest} given)")
        self.longest = longest

    def longest_of(self, drafts: Sequence[Draft | None]) -> int:
        """Length of the longest of ``drafts``, at most the attribute ``longest``."""
        return min(self.longest, max((len(draft.tokens) for draft in drafts if draft is not None), default=0))

    def asks(self) -> bool:
        """Whether to draft before the next pass."""
        return True

    @abstractmethod
    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """Returns how many tokens of each draft the next pass verifies. ``drafts`` has one entry per text."""

    # a subclass that learns nothing need not override these two
    def count_draft(self, draft: Draft, verified: int, accepted: int) -> None:  # noqa: B027
        """Records how many tokens of a draft were verified and accepted."""

    def count_pass(self, texts: int, width: int, seconds: float, guessing: float | None = None) -> None:  # noqa: B027
        """Records that a pass over ``texts`` x ``width`` tokens took ``seconds``.

        ``guessing`` is the time of drafting before the pass, in seconds; None: the drafter was not asked.
        """


class FixedLength(DraftLength):
    """Verifies all drafted tokens, up to ``longest``."""

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """The length of the longest of ``drafts``, at most the attribute ``longest``."""
        return self.longest_of(drafts)


class LearnedLength(DraftLength):
    """Chooses the draft length with the most tokens per second, from acceptance rates and pass times so far.

    If drafts do not save time, a draft is made for only one of 8 passes. So generation without useful drafts is almost
    as fast as without a drafter.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__(longest)
        self.acceptance = Acceptance()
        self.payoff = Payoff()
        self._costs: defaultdict[int, PassCost] = defaultdict(PassCost)
        self._guessing = 0.0
        self._wait = 1  # the first pass is without a draft, for comparison

    def asks(self) -> bool:
        """Returns True if drafts save time or a draft was just accepted; otherwise, only before one of 8 passes.

        The first call returns False, so that a pass without a draft is measured.
        """
        if self._wait > 0:
            self._wait -= 1
            return False
        self._wait = 0 if self.payoff.pays else _RAREST - 1
        return True

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """The length with the most expected tokens per unit of time, where the time includes drafting."""
        expected = [self.acceptance.expected(draft, self.longest) for draft in drafts if draft is not None]
        cost = self._costs[len(drafts)]
        guess = self._guessing / cost.plain if cost.plain else 0.0
        rates = [
            (len(drafts) + sum(of[count] for of in expected)) / (guess + cost.ratio(1 + count))
            for count in range(self.longest_of(drafts) + 1)
        ]
        return rates.index(max(rates))

    def count_draft(self, draft: Draft, verified: int, accepted: int) -> None:
        """Updates the acceptance rates."""
        self.acceptance.count(draft, verified, accepted)
        self.payoff.count_accepted(accepted)
        if accepted:
            self._wait = 0

    def count_pass(self, texts: int, width: int, seconds: float, guessing: float | None = None) -> None:
        """Updates the pass times."""
        cost = self._costs[texts]
        cost.count(width, seconds)
        if guessing is None:
            return
        self._guessing += _SHARE * (guessing - self._guessing) if self._guessing else guessing
        if cost.plain:
            self.payoff.count_pass(texts, guessing + seconds, cost.plain)


# -- How often draft tokens were accepted, by the evidence for them.

_DEEPEST = 8
"""Maximum number of agreeing tokens that is counted; larger numbers count as this number."""
_WEIGHT = 2.0
"""Weight of the estimate from all tokens with equally many agreeing tokens, as a number of trials."""
_NEVER_TRIED = 0.5
_FORGOTTEN = 512
"""Number of trials of one kind at which all counts are halved, because texts change."""


class Acceptance:
    """Acceptance rates of drafted tokens, counted during generation.

    A drafted token's agreement is ``Draft.agreed`` plus the number of draft tokens before it, at most 8. The token's
    rate is estimated from earlier drafted tokens with equal agreement and equal ``Draft.evidence``. The rate of all
    tokens with equal agreement, whatever their evidence, counts as two more such tokens. If no token with equal
    agreement was verified yet, the rate is 1/2, so that the token is tried.
    """

    def __init__(self) -> None:
        self._tried: Counter[Hashable] = Counter()
        self._right: Counter[Hashable] = Counter()

    def chance(self, draft: Draft, number: int) -> float:
        """Probability that token ``number`` (from 0) of ``draft`` is accepted, given that all tokens before it are."""
        found = _NEVER_TRIED
        for kind in reversed(list(_kinds(draft, number))):
            found = (self._right[kind] + _WEIGHT * found) / (self._tried[kind] + _WEIGHT)
        return found

    def expected(self, draft: Draft, count: int) -> list[float]:
        """Expected numbers of accepted tokens if 0, 1, ..., ``count`` tokens of a draft are verified."""
        sums, running = [0.0], 1.0
        for number in range(min(count, len(draft.tokens))):
            running *= self.chance(draft, number)
            sums.append(sums[-1] + running)
        return sums + sums[-1:] * (count + 1 - len(sums))

    def count(self, draft: Draft, verified: int, accepted: int) -> None:
        """Records that the first ``verified`` tokens were verified, and the first ``accepted`` of them accepted."""
        for number in range(verified):
            for kind in _kinds(draft, number):
                self._tried[kind] += 1
                self._right[kind] += number < accepted
                if self._tried[kind] >= _FORGOTTEN:
                    self._tried[kind] //= 2
                    self._right[kind] //= 2


def _kinds(draft: Draft, number: int) -> Iterator[Hashable]:
    """The kinds under which a token is counted; the most specific kind comes first."""
    agreed = min(draft.agreed + number, _DEEPEST)
    yield draft.evidence, agreed
    yield agreed


# -- What a pass over several tokens costs compared with a pass over one token, measured during generation.

_OUTLIER = 3.0
"""Limit of a pass time, as a multiple of the mean. A longer time is cut to this limit, because other work caused it."""
_UNMEASURED = 0.02
"""Assumed cost of each further token until it is measured, as a share of a pass over one token."""
_DOUBT = 0.01
"""Share by which an expensive width moves towards the assumed cost at each pass of another width."""


class PassCost:
    """Mean seconds of a pass, for each width (number of tokens per text) that occurred."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    @property
    def plain(self) -> float | None:
        """Seconds of a pass over one token; None: not measured yet."""
        return self._seconds.get(1)

    def count(self, width: int, seconds: float) -> None:
        """Records a pass over ``width`` tokens per text that took ``seconds``."""
        # Expensive widths move towards the assumed cost. Otherwise one slow pass would exclude a width for ever.
        for other, known in self._seconds.items():
            usual = self._seconds.get(1, known) * (1 + _UNMEASURED * (other - 1))
            if other != width and known > usual:
                self._seconds[other] = known + _DOUBT * (usual - known)
        mean = self._seconds.get(width)
        if mean is None:
            self._seconds[width] = seconds
        else:
            self._seconds[width] = mean + _SHARE * (min(seconds, _OUTLIER * mean) - mean)

    def ratio(self, width: int) -> float:
        """Seconds of a pass over ``width`` tokens, divided by those of a pass over one token; at least 1.

        The time of a width that was not measured is interpolated between measured widths, or extrapolated from the
        largest measured width with an assumed cost per token.
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


# -- Whether drafts save time, from measured times and the number of tokens that drafts added.

_TRIED = 16
"""Minimum number of passes with a draft before the class decides whether drafts save time."""
_KEPT = 1 - 1 / 32
"""Factor by which older statistics decay per pass, because texts change."""


class Payoff:
    """Compares the time of passes with drafts (drafting included) with the time of as many tokens without drafts.

    A pass with a draft saves time if generating its tokens one by one would have taken longer. Even an accepted draft
    may save no time, because drafting takes time and a pass over several tokens is slower.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._spent = self._worth = self._token = 0.0

    @property
    def pays(self) -> bool:
        """Whether drafts save time; true until 16 passes with drafts were recorded."""
        return self._passes < _TRIED or self._worth >= self._spent

    def count_pass(self, texts: int, seconds: float, plain: float) -> None:
        """Records that a pass took ``seconds`` with drafting, and would take ``plain`` seconds without drafts.

        The pass counts as one token for each of ``texts`` texts. ``count_accepted`` adds the accepted draft tokens.
        """
        self._passes += 1
        self._token = plain / texts
        self._spent = _KEPT * self._spent + seconds
        self._worth = _KEPT * self._worth + plain

    def count_accepted(self, tokens: int) -> None:
        """Adds ``tokens``, the number of accepted draft tokens of a text, to the token that ``count_pass`` counts."""
        self._worth += tokens * self._token
