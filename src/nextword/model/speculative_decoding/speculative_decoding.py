"""What ``generate(draft=...)`` takes: who drafts, how much, and what became of the drafts."""

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
    """A draft and what became of it.

    Attributes:
        row: Which text it was for.
        begin: How many tokens had been written of that text.
        tokens: The drafted tokens that a pass read.
        accepted: How many of them, from the first on, are what the model wrote.
        found: Where they were found, as in ``Draft``.
    """

    row: int
    begin: int
    tokens: tuple[int, ...]
    accepted: int
    found: tuple[TextRead, int] | None

    words = property(attrgetter("tokens"))  # the old name


class SpeculativeDecoding:
    """How tokens are drafted. Given to several calls of ``generate``, it keeps what it learned of them.

    Args:
        by: "head" or "prompt", or an object of your own class.
        length: How many tokens are drafted; by default as many as pay, learned on the run.

    Attributes:
        verified: Every draft of the latest call, in order.
        tokens: Tokens written in all calls.
        passes: What all texts took until each was finished: in a batch a pass counts once for each unfinished text.

    Raises:
        UnknownNameError: No drafter has this name.
    """

    def __init__(self, by: str | Drafter = "head", length: DraftLength | None = None) -> None:
        self.drafter = drafters.get(by)() if isinstance(by, str) else by
        self.length = LearnedLength() if length is None else length
        self.verified: list[DraftOutcome] = []
        self.tokens = 0
        self.passes = 0

    @property
    def tokens_per_pass(self) -> float:
        """Tokens that a pass gave on average; 1 without drafts."""
        return self.tokens / max(1, self.passes)

    # the old names
    judged = property(attrgetter("verified"))
    words = property(attrgetter("tokens"))
    words_a_pass = property(attrgetter("tokens_per_pass"))

    def count(self, row: int, begin: int, draft: Draft | None, *, offered: int, accepted: int, written: int) -> None:
        """Notes what a pass made of a draft.

        Args:
            row: Which text.
            begin: Tokens that had been written of it.
            draft: What was drafted.
            offered: Drafted tokens that the pass read.
            accepted: How many of them the model writes itself, up to the first that it does not.
            written: New tokens: those accepted, and in most cases one more.
        """
        self.tokens += written
        self.passes += 1
        if draft is not None and offered:
            self.length.count_draft(draft, min(written, offered), accepted)  # behind a wrong one none is verified
            self.verified.append(DraftOutcome(row, begin, tuple(draft.tokens[:offered]), accepted, draft.found))


def speculative_decoding_of(draft: Any) -> SpeculativeDecoding | None:
    """What a value of ``draft`` stands for; None: it is another model, which assists."""
    if isinstance(draft, SpeculativeDecoding):
        return draft
    if isinstance(draft, str | Drafter):
        return SpeculativeDecoding(draft)
    if hasattr(draft, "generate"):
        return None
    raise ValueError(
        f"draft: must be 'head', 'prompt', a model or a SpeculativeDecoding ({type(draft).__name__} given); leave it "
        "out to write word by word"
    )


# -- How many tokens are drafted: as many as pay.

LONGEST = 10
"""Most tokens of a draft; a pass over more costs noticeably more than one over a single token."""
_RAREST = 8
"""Where drafts do not pay, one is made in so many passes, to see whether they do again."""
_SHARE = 0.2
"""Weight of the latest draft in the mean time of one."""


class DraftLength(ABC):
    """Decides before each pass whether to draft, and of how many tokens the pass verifies.

    Attributes:
        longest: Most tokens of a draft.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        if longest < 1:
            raise ValueError(f"longest: must be at least 1 ({longest} given)")
        self.longest = longest

    def longest_of(self, drafts: Sequence[Draft | None]) -> int:
        """Tokens of the longest draft, at most ``longest``."""
        return min(self.longest, max((len(draft.tokens) for draft in drafts if draft is not None), default=0))

    def asks(self) -> bool:
        """Whether to draft before the next pass at all."""
        return True

    @abstractmethod
    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """How many tokens of these drafts, one for each text, the next pass is to verify; 0: none."""

    # both may be left empty, which says that nothing is learned
    def count_draft(self, draft: Draft, verified: int, accepted: int) -> None:  # noqa: B027
        """Notes how many tokens of a draft were verified, and how many of them accepted."""

    def count_pass(self, texts: int, width: int, seconds: float, guessing: float | None = None) -> None:  # noqa: B027
        """Notes the seconds of a pass over so many texts and tokens of each, and of a draft before it, if there was."""


class FixedLength(DraftLength):
    """As many tokens as there are, up to ``longest``."""

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """The longest draft, cut."""
        return self.longest_of(drafts)


class LearnedLength(DraftLength):
    """The number of tokens that gives most tokens for the time, by what was accepted and by what passes cost so far.

    Where drafting itself does not pay, it becomes rare, so that a text which copies nothing is written as fast as
    without drafts.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__(longest)
        self.acceptance = Acceptance()
        self.payoff = Payoff()
        self._costs: defaultdict[int, PassCost] = defaultdict(PassCost)
        self._guessing = 0.0
        self._wait = 1  # one pass without a draft, beside which all others are judged

    def asks(self) -> bool:
        """Rarely where it does not pay; after an accepted token at once, since copied tokens come in runs."""
        if self._wait > 0:
            self._wait -= 1
            return False
        self._wait = 0 if self.payoff.pays else _RAREST - 1
        return True

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """Where expected tokens over cost is largest; drafting is part of the cost, whatever is made of it."""
        expected = [self.acceptance.expected(draft, self.longest) for draft in drafts if draft is not None]
        cost = self._costs[len(drafts)]
        guess = self._guessing / cost.plain if cost.plain else 0.0
        rates = [
            (len(drafts) + sum(of[count] for of in expected)) / (guess + cost.ratio(1 + count))
            for count in range(self.longest_of(drafts) + 1)
        ]
        return rates.index(max(rates))

    def count_draft(self, draft: Draft, verified: int, accepted: int) -> None:
        """Learns from it."""
        self.acceptance.count(draft, verified, accepted)
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


# -- How often the tokens of a draft turned out right, by what spoke for them.

_DEEPEST = 8
"""Tokens that agree, beyond which more of them change nothing."""
_WEIGHT = 2.0
"""How many trials the rougher estimate counts as."""
_NEVER_TRIED = 0.5
_FORGOTTEN = 512
"""Trials of one kind, at which the older half of their weight is dropped: texts change."""


class Acceptance:
    """Chances of drafted tokens, counted on the run.

    A token's chance is estimated from tokens of equal evidence behind which equally many tokens agreed; where these are
    few, from all behind which equally many agreed. Tokens never tried count as right half of the time, so they get
    tried.
    """

    def __init__(self) -> None:
        self._tried: Counter[Hashable] = Counter()
        self._right: Counter[Hashable] = Counter()

    def chance(self, draft: Draft, number: int) -> float:
        """Chance of this token of a draft, where all before it are right."""
        found = _NEVER_TRIED
        for kind in reversed(list(_kinds(draft, number))):
            found = (self._right[kind] + _WEIGHT * found) / (self._tried[kind] + _WEIGHT)
        return found

    def expected(self, draft: Draft, count: int) -> list[float]:
        """For 0 to ``count`` tokens of a draft, how many of them will be accepted on average."""
        sums, running = [0.0], 1.0
        for number in range(min(count, len(draft.tokens))):
            running *= self.chance(draft, number)
            sums.append(sums[-1] + running)
        return sums + sums[-1:] * (count + 1 - len(sums))

    def count(self, draft: Draft, verified: int, accepted: int) -> None:
        """Notes that the first ``verified`` tokens were looked at, and that the first ``accepted`` were right."""
        for number in range(verified):
            for kind in _kinds(draft, number):
                self._tried[kind] += 1
                self._right[kind] += number < accepted
                if self._tried[kind] >= _FORGOTTEN:
                    self._tried[kind] //= 2
                    self._right[kind] //= 2


def _kinds(draft: Draft, number: int) -> Iterator[Hashable]:
    """What a token is counted as, the finest first."""
    agreed = min(draft.agreed + number, _DEEPEST)
    yield draft.evidence, agreed
    yield agreed


# -- What a pass over several tokens costs beside a pass over one, measured on the run.

_OUTLIER = 3.0
"""Times the mean, more than which a pass does not count: the machine did something else."""
_UNMEASURED = 0.02
"""Part of a pass over one token that each further token is taken to cost, before that is measured."""
_DOUBT = 0.01
"""Share of the way to that cost which a width moves with each pass of another width."""


class PassCost:
    """Seconds of passes by their width, the tokens that they read in each text."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    @property
    def plain(self) -> float | None:
        """Seconds of a pass over one token; None: there was none yet."""
        return self._seconds.get(1)

    def count(self, width: int, seconds: float) -> None:
        """Notes one pass."""
        # dear widths come nearer to what they cost unmeasured, or one slow pass would rule them out for ever
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
        """What a pass of this width costs in passes over one token, at least 1.

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


# -- Whether drafting pays, measured by the time that it took and the tokens that it gave.

_TRIED = 16
"""Passes after a draft, before which nothing is concluded."""
_KEPT = 1 - 1 / 32
"""Share of what is known that one more pass leaves: texts change."""


class Payoff:
    """Seconds of the passes with a draft, drafting included, beside what their tokens cost without.

    A pass over one token without a draft costs so many seconds; a pass with a draft pays where its tokens would have
    taken longer that way. Drafts may be accepted and still not pay: a draft takes its time, and so does a wider pass.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._spent = self._worth = self._token = 0.0

    @property
    def pays(self) -> bool:
        """Whether to continue drafting."""
        return self._passes < _TRIED or self._worth >= self._spent

    def count_pass(self, texts: int, seconds: float, plain: float) -> None:
        """Notes the seconds of draft and pass, with one token for each text; those of a ``plain`` pass beside them."""
        self._passes += 1
        self._token = plain / texts
        self._spent = _KEPT * self._spent + seconds
        self._worth = _KEPT * self._worth + plain

    def count_accepted(self, tokens: int) -> None:
        """Notes tokens that the last pass gave besides."""
        self._worth += tokens * self._token
