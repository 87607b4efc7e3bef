"""Repetition in texts (Rep, seq-rep-n) and in predictions (rep/l, wrep/l)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.distinct import distinct, distinct_by_length
from nextword.evaluation.metrics.metric import (
    Metric,
    MetricConfig,
    NumbersConfig,
    OfAllTexts,
    Order,
    OrdersConfig,
    Score,
    Setup,
    UndefinedError,
    registry,
)
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import Text, Texts, Tokenize, Words, as_ids, token_ids

LONGEST_PHRASE = 90
SHORTEST_LOOP = 3
"""Minimum number of tokens of a phrase that forms a loop with two copies."""
MOST_COPIES = 50
"""A phrase with fewer tokens than ``SHORTEST_LOOP`` forms a loop only if it has more copies than this."""


def copies_at_end(
    text: Text, longest_phrase: int = LONGEST_PHRASE, tokenize: Tokenize = "words"
) -> Int[np.ndarray, "P"]:
    """For n = 1 to ``longest_phrase``: how often the last n tokens of ``text`` occur back to back at its end (>= 1).

    >>> copies_at_end([9, 1, 2, 1, 2, 1, 2, 1, 2], 5).tolist()
    [1, 4, 1, 2, 1]
    """
    # If the reversed text equals itself n tokens later over m tokens, there are 1 + m // n copies.
    agreement = np.array(_agreement(token_ids(text, tokenize).tolist()[::-1], longest_phrase), dtype=np.int64)
    return 1 + agreement // np.arange(1, longest_phrase + 1)


def ends_in_loop(text: Text, longest_phrase: int = LONGEST_PHRASE, tokenize: Tokenize = "words") -> bool:
    """Whether the phrase of at most ``longest_phrase`` tokens with the most copies at the end of a text forms a loop.

    If several phrases have the most copies, the shortest is tested. A loop has at least two copies of a phrase of 3
    tokens or more, or more than 50 copies of a shorter phrase.

    Source: the script of The curious case of neural text degeneration (Holtzman et al., 2020), which F2-Softmax (Choi
        et al., 2020) also uses. The time is linear in the tokens.

    >>> ends_in_loop("we saw a cat, a cat, a cat,"), ends_in_loop("we saw a cat")
    (True, False)
    >>> ends_in_loop([9, 1, 2, 3, 1, 2, 3]), ends_in_loop([1, 2] * 4), ends_in_loop([7] * 50), ends_in_loop([7] * 51)
    (True, False, False, True)
    """
    # a phrase longer than the text occurs at most once
    tokens = token_ids(text, tokenize)
    copies = copies_at_end(tokens, min(longest_phrase, max(1, len(tokens))))
    best = int(np.argmax(copies))
    return bool(copies[best] > 1 and (best + 1 >= SHORTEST_LOOP or copies[best] > MOST_COPIES))


class RepConfig(MetricConfig):
    """Settings of Rep."""

    longest_phrase: int = Field(default=LONGEST_PHRASE, ge=1)
    """Maximum length of a repeated phrase at the end of a text, in tokens."""


@registry.register("rep")
class Rep(Metric):
    """Rep: share of texts that end in a loop (a phrase repeated again and again). Example: ``rep``."""

    Config = RepConfig
    needs = ("tokens",)
    group, goal, decimals = metric.REPETITION, "human", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._loops: list[float] = []

    def add(self, sample: Sample) -> None:
        """Read the generated text. An empty text has no value and is left out."""
        tokens = sample.tokens.tolist()
        self._loops.append(ends_in_loop(tokens, self.config.longest_phrase) if tokens else np.nan)

    def result(self) -> dict[str, Score]:
        """The score, with the key ``rep``."""
        loops = np.array(self._loops, dtype=np.float64)
        measure = self.measure(
            "Rep",
            f"fraction of texts (phrases of up to {self.config.longest_phrase} tokens)",
            "Rep: texts that end in a loop: at least two copies of a phrase of three tokens or more, or over 50 of "
            "a shorter one.",
        )
        return {"rep": Score.mean(measure, loops)}


def _agreement(tokens: list[int], longest_shift: int) -> list[int]:
    """For every shift of 1 or more, the number of leading tokens in which the sequence equals its shifted copy.

    This is the Z algorithm (Gusfield, 1997, chapter 1). In a part that equals the beginning of the sequence, it reuses
    the results for the beginning. So the time is linear.
    """
    found = [0] * (longest_shift + 1)
    left, right = 0, 0  # tokens [left, right) equal the beginning of the sequence
    for shift in range(1, min(longest_shift, len(tokens) - 1) + 1):
        agree = min(right - shift, found[shift - left]) if shift < right else 0
        while shift + agree < len(tokens) and tokens[agree] == tokens[shift + agree]:
            agree += 1
        found[shift] = agree
        if shift + agree > right:
            left, right = shift, shift + agree
    return found[1:]


# -- seq-rep-n: the share of repeated n-grams in a completion.

FEWEST_WORDS = 4
"""Minimum number of words of a completion, if seq-rep counts words."""


def seq_rep(texts: Texts, n: int, tokenize: Tokenize = "words") -> Float[np.ndarray, "N"]:
    """Share of repeated n-grams of each text, 1 - (distinct / all n-grams), (N,). NaN for a text without n-grams.

    Source: Neural text generation with unlikelihood training (Welleck et al., 2020).

    Raises:
        ValueError: If ``texts`` is not a list of texts, or ``n`` is below 1.

    >>> seq_rep([[1, 2, 1, 2, 1], [3]], 2)
    array([0.5, nan])
    """
    return 1 - distinct(texts, n, tokenize)


class SeqRepConfig(OrdersConfig):
    """Settings of seq-rep-n."""

    n: tuple[Order, ...] = Field(default=(1, 4), min_length=1)
    """The lengths n of the n-grams."""
    words: bool = False
    """Whether to count words and punctuation marks instead of tokens. If true, texts with fewer than four words and
    punctuation marks are left out."""


@registry.register("seq-rep")
class SeqRep(OfAllTexts):
    """seq-rep-n: share of repeated n-grams within each text, averaged over texts. Example: ``seq-rep:1,4``."""

    Config = SeqRepConfig
    votes = ("seq-rep-4",)
    group, goal, decimals = metric.REPETITION, "human", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._words = Words() if self.config.words else None
        self._unit = "words" if self.config.words else "tokens"

    def add(self, sample: Sample) -> None:
        """Reads the generated text."""
        if self._words is None:
            super().add(sample)
            return
        words = self._words.ids(sample.need("text", "seq-rep over words"))
        self._tokens.append(words if len(words) >= FEWEST_WORDS else words[:0])

    def result(self) -> dict[str, Score]:
        """The scores, with the key ``seq-rep-n`` for every n for which some text has an n-gram."""
        known = {n: 1 - shares for n, shares in distinct_by_length(self.texts(), self.config.n).items()}
        if not known:
            fewest = min(self.config.n)
            raise UndefinedError(f"seq-rep-{fewest}: at least one text must have {fewest} {self._unit} (none has)")
        found = {}
        for n, shares in known.items():
            meaning = f"seq-rep-{n}: share of a text's n-grams that occurred earlier in it, averaged over texts."
            measure = self.measure(f"seq-rep-{n}", f"fraction of {n}-grams of {self._unit} of a text", meaning)
            found[f"seq-rep-{n}"] = Score.mean(measure, shares)
        return found


# -- rep/l and wrep/l: how often the most probable next token is one of the last l tokens, and how often wrongly so.

Ids = Sequence[int] | Int[np.ndarray, "T"]


def steps_back(targets: Ids, predicted: Ids) -> Int[np.ndarray, "T"]:
    """For each ``predicted[t]``, how many positions before t the same token last occurs in ``targets``; 0: nowhere.

    If the result for t is from 1 to l, ``predicted[t]`` is among the last l targets before t. So one call gives the
    repetition for every window size l. Time: O(T log T).

    >>> steps_back([5, 6, 7, 8], [5, 5, 5, 9]).tolist()
    [0, 1, 2, 0]
    """
    said, guessed = np.asarray(targets, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if said.shape != guessed.shape:
        raise ValueError(
            f"steps back: targets and predictions must have the same length ({len(said)} targets, {len(guessed)} "
            f"predictions given)"
        )
    length = len(said)
    numbers = np.unique(np.concatenate([said, guessed]), return_inverse=True)[1].reshape(-1)
    place = np.arange(length)
    # sorted by token, then position: the last target before (token, t) is the entry directly before it
    order = np.sort(numbers[:length] * length + place)
    asked = numbers[length:] * length + place
    below = np.searchsorted(order, asked) - 1
    last = order[np.maximum(below, 0)]
    same = (below >= 0) & (last // max(length, 1) == numbers[length:])
    steps: Int[np.ndarray, "T"] = np.where(same, asked - last, 0)
    return steps


class TokenRepetitionConfig(NumbersConfig):
    """Settings of rep/l and wrep/l."""

    numbers = meaning = "windows"

    windows: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(16, 32, 128, 512), min_length=1)
    """Window sizes l. A prediction is repeated if the last l targets include it."""


@registry.register("token-repetition")
class TokenRepetition(Metric):
    """rep/l (wrep/l): share of (wrong) predictions among the l tokens before. Example: ``token-repetition:128``.

    rep/l is the share of all predictions (most probable tokens) that are among the l targets before. wrep/l is the
    share of all predictions that are among the l targets before and are wrong.
    """

    Config = TokenRepetitionConfig
    needs = ("target_token_ids", "predicted_token_ids")
    votes = ("rep/128",)
    group, goal, decimals = metric.REPETITION, "human", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._repeated: list[Int[np.ndarray, "L 2"]] = []
        self._tokens: list[int] = []

    def add(self, sample: Sample) -> None:
        """Read the targets and predictions of one sample. A prediction is compared only with targets of its sample."""
        targets = as_ids(sample.need("target_token_ids", "token-repetition"))
        predicted = as_ids(sample.need("predicted_token_ids", "token-repetition"))
        steps, wrong = steps_back(targets, predicted), targets != predicted
        repeated = [(steps > 0) & (steps <= window) for window in self.config.windows]
        self._repeated.append(np.array([(inside.sum(), (inside & wrong).sum()) for inside in repeated]))
        self._tokens.append(len(targets))

    def result(self) -> dict[str, Score]:
        """The scores: ``rep/l`` for every window size l, then ``wrep/l`` for every l."""
        counts = np.array(self._repeated, dtype=np.float64).reshape(-1, len(self.config.windows), 2)
        found = {}
        for kind, (name, which) in enumerate((("rep", ""), ("wrep", " and are wrong"))):
            for number, window in enumerate(self.config.windows):
                title = f"{name}/{window}"
                meaning = (
                    f"{title}: share of top predictions that are among the {window} previous targets{which}; each "
                )
                measure = self.measure(title, "fraction of predicted tokens", f"{meaning}sample is counted separately.")
                found[title] = Score.ratio(measure, counts[:, number, kind], self._tokens)
        return found
