"""What ``generate(draft=...)`` takes: who drafts, how much, and what became of the drafts."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from nextword.functional.copy_scores import TextRead
from nextword.model.speculative_decoding.draft_length import DraftLength, LearnedLength
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
        by: "places" or "prompt", or an object of your own class.
        length: How many tokens are drafted; by default as many as pay, learned on the run.

    Attributes:
        verified: Every draft of the latest call, in order.
        tokens: Tokens written in all calls.
        passes: What all texts took until each was finished: in a batch a pass counts once for each unfinished text.

    Raises:
        UnknownNameError: No drafter has this name.
    """

    def __init__(self, by: str | Drafter = "places", length: DraftLength | None = None) -> None:
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
        f"draft: must be 'places', 'prompt', a model or a SpeculativeDecoding ({type(draft).__name__} given); leave it "
        "out to write word by word"
    )
