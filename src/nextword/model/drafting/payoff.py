"""Whether guessing pays, judged by the time that it took and the words that it gave."""

from __future__ import annotations

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
