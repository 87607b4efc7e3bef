"""What a scorer is asked: the contract between the audit and anybody's next-word probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Texts: TypeAlias = Sequence[Sequence[int]]
"""Token ids of several texts, which may differ in length; lists of numbers."""

Array: TypeAlias = Any
"""What ``torch.as_tensor`` takes: a tensor, an array of numpy, lists of numbers."""

NextLogProbs: TypeAlias = Callable[[Texts], Array]
"""The whole of the contract, in its shortest form: prefixes to log-probabilities (B, V) of every next token."""


class Scorer(Protocol):
    """Anything that says how probable the next token is: a function, or an object with some of these methods.

    All numbers are natural logarithms. Token ids count from 0 to ``vocabulary`` - 1. A text has no start or end marks
    but those in its ids, and the audit pads nothing: what a scorer needs, it adds by itself and keeps to itself.

    A scorer has ``__call__``, ``text_distributions`` or ``text_log_probs``. Each of these is audited by itself, and
    where there are several they are held against each other. Every other method is optional and lets more be tested.
    Leave out what you do not have; nothing is called that is not there.

    Examples:
        >>> import torch, nextword as nw
        >>> def uniform(prefixes):
        ...     return torch.full((len(prefixes), 5), 0.2).log()
        >>> nw.check(uniform, vocabulary=5).passed
        True
    """

    precision: str
    """Optional: "float64" where all sums were made in it. Without, no answer is held to more than float32 can hold."""

    def __call__(self, prefixes: Texts, /) -> Array:
        """Log-probabilities (B, V) of every token after each of B prefixes, which have one token or more."""
        ...

    def text_distributions(self, texts: Texts, /) -> Sequence[Array]:
        """For each text of T tokens (T, V): row t says what token t is scored with, so it may depend on those before t.

        Row 0 is what is said before anything was read; NaN where a scorer says nothing then.
        """
        ...

    def text_log_probs(self, texts: Texts, /) -> Sequence[Array]:
        """For each text of T tokens (T,): the log-probability of each given those before it, as it will be counted.

        This is what a compressor or a submission in bits per byte has. The first may be NaN, as above.
        """
        ...

    def text_totals(self, texts: Texts, /) -> Sequence[float]:
        """For each text the log-probability that is counted: the sum over its tokens, those left out that have NaN."""
        ...

    def reset(self) -> None:
        """Forgets every text. Called before each question where it is there; without it nothing may need it."""
        ...

    def in_steps(self, texts: Texts, sizes: Sequence[int], order: Sequence[int] | None, /) -> Sequence[Array]:
        """As ``text_distributions``, read in steps with what the scorer keeps between them (a KV cache).

        Args:
            texts: Texts of one length.
            sizes: Tokens in each step, over and over.
            order: Where given, what is kept and the texts are put into this order after the first step, as beam search
                does: row i goes on as text ``order[i]``.
        """
        ...

    def sample(self, prefix: Sequence[int], count: int, /) -> Sequence[int]:
        """So many tokens, each drawn by itself to come next after the prefix."""
        ...

    def bits_and_bytes(self, texts: Sequence[str], /) -> Sequence[tuple[float, int]]:
        """For each text in characters the bits and the bytes of which "bits per byte" is made."""
        ...
