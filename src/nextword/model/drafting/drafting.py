"""What ``generate(draft=...)`` takes: who guesses, how much, and what became of the guesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nextword.functional.entries import TextRead
from nextword.model.drafting.draft_length import DraftLength, LearnedLength
from nextword.model.drafting.drafter import Draft, Drafter, drafters

__all__ = ["Drafting", "JudgedDraft", "VerifiedDraft", "drafters", "drafting_of"]


@dataclass(frozen=True)
class JudgedDraft:
    """A draft and what became of it.

    Attributes:
        row: Which text it was for.
        begin: How many words had been written of that text.
        words: The drafted words that a pass read.
        accepted: How many of them, from the first on, are what the model wrote.
        found: Where they were found, as in ``Draft``.
    """

    row: int
    begin: int
    words: tuple[int, ...]
    accepted: int
    found: tuple[TextRead, int] | None


@dataclass(frozen=True)
class VerifiedDraft:
    """What a pass gave for one text.

    Attributes:
        written: New words: those accepted, and in most cases one more.
        accepted: Drafted words that the model writes itself, up to the first that it does not.
        judged: Those, and the first one that was wrong; what comes behind it was not judged.
        offered: Drafted words that the pass read.
    """

    written: int
    accepted: int
    judged: int
    offered: int


class Drafting:
    """How words are drafted. Given to several calls of ``generate``, it keeps what it learned of them.

    Args:
        by: "places" or "prompt", or an object of your own class.
        length: How many words are drafted; by default as many as pay, learned on the run.

    Attributes:
        judged: Every draft of the latest call, in order.
        words: Words written in all calls.
        passes: What all texts took until each was finished: in a batch a pass counts once for each unfinished text.

    Raises:
        UnknownNameError: No drafter has this name.
    """

    def __init__(self, by: str | Drafter = "places", length: DraftLength | None = None) -> None:
        self.drafter = drafters.get(by)() if isinstance(by, str) else by
        self.length = LearnedLength() if length is None else length
        self.judged: list[JudgedDraft] = []
        self.words = 0
        self.passes = 0

    @property
    def words_a_pass(self) -> float:
        """Words that a pass gave on average; 1 without drafts."""
        return self.words / max(1, self.passes)

    def begin(self) -> None:
        """A call of ``generate`` begins."""
        self.judged = []

    def count(self, row: int, begin: int, draft: Draft | None, verdict: VerifiedDraft) -> None:
        """Notes what a pass made of a draft.

        Args:
            row: Which text.
            begin: Words that had been written of it.
            draft: What was guessed.
            verdict: What the pass gave.
        """
        self.words += verdict.written
        self.passes += 1
        if draft is None or not verdict.offered:
            return
        self.length.count_draft(draft, verdict.judged, verdict.accepted)
        words = tuple(draft.words[: verdict.offered])
        self.judged.append(JudgedDraft(row, begin, words, verdict.accepted, draft.found))


def drafting_of(draft: Any) -> Drafting | None:
    """What a value of ``draft`` stands for; None: it is another model, which assists."""
    if isinstance(draft, Drafting):
        return draft
    if isinstance(draft, str | Drafter):
        return Drafting(draft)
    if hasattr(draft, "generate"):
        return None
    raise ValueError(
        f"draft: must be 'places', 'prompt', a model or a Drafting ({type(draft).__name__} given); leave it out to "
        "write word by word"
    )
