"""Corpus BLEU from sacrebleu's counts, and BLEU as in the evaluation script of LogicNLG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import (
    Metric,
    MetricConfig,
    Order,
    OrdersConfig,
    Score,
    Setup,
    UndefinedError,
    registry,
)
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.statistics import Statistic
from nextword.evaluation.metrics.tokens import expect_references

Tokenize = Literal["13a", "intl", "char", "zh", "none"]


def bleu(
    texts: Iterable[str], references: Iterable[Sequence[str]], n: int = 4, scorer: Any = None
) -> tuple[float, Float[np.ndarray, "N K"]]:
    """Corpus BLEU-n of ``texts``, and the counts of each text, as ``sentence_counts`` returns them.

    Let c be the number of tokens of all texts, and r the number of tokens of the references, taking for each text the
    reference closest in length. Let p_m be the share of the texts' m-grams that occur in a reference. An m-gram counts
    at most as often as in the reference with its largest count.

        BLEU-n = min(1, exp(1 - r / c)) · (p_1 · ... · p_n)^(1/n)

    If no m-gram matches, p_m is 1 / (2^k · number of m-grams) for the k-th such m ("exp" smoothing). The value is in
    [0, 1], and 0 if no m-gram of any length matches.

    Source: Papineni et al. (2002). The result equals sacrebleu's (Post, 2018).

    ``scorer`` is a ``sacrebleu.metrics.BLEU``, which tokenizes and counts. None: ``bleu_scorer(n)``.

    >>> value, counts = bleu(["the cat sat on the mat"], [["the cat sat on a mat"]], n=2)
    >>> round(value, 4), counts.tolist()
    (0.7071, [[6.0, 6.0, 5.0, 3.0, 6.0, 5.0]])
    """
    texts, references = list(texts), list(references)
    expect_references(references, "bleu")
    counting = scorer or bleu_scorer(n)
    rows = [sentence_counts(counting, text, list(found)) for text, found in zip(texts, references, strict=True)]
    counts = np.array(rows, dtype=np.float64).reshape(len(rows), 2 + 2 * counting.max_ngram_order)
    return float(bleu_of_sums(counts.sum(axis=0), n)), counts


def bleu_scorer(n: int = 4, tokenize: Tokenize = "13a", lowercase: bool = False) -> Any:
    """Make a ``sacrebleu.metrics.BLEU`` for n-grams up to length ``n`` that counts single sentences."""
    from sacrebleu.metrics.bleu import BLEU

    # with effective_order=True sacrebleu does not warn at every sentence; the counts are the same
    return BLEU(lowercase=lowercase, tokenize=tokenize, max_ngram_order=n, effective_order=True)


def sentence_counts(scorer: Any, text: str, references: list[str]) -> list[float]:
    """Tokens in ``text``, tokens in the reference closest in length, matches for m = 1..n, and m-grams for m = 1..n."""
    found = scorer.sentence_score(text, references)
    return [found.sys_len, found.ref_len, *found.counts, *found.totals]


def bleu_of_sums(sums: Float[np.ndarray, "... K"], n: int) -> Float[np.ndarray, "..."]:
    """Corpus BLEU-n from ``sums``: the ``sentence_counts`` of all texts, added up. They may include lengths m above n.

    >>> bleu_of_sums(np.array([[6, 6, 5, 3, 6, 5], [3, 6, 3, 0, 3, 2]], dtype=np.float64), 2).round(4)
    array([0.7071, 0.1839])
    """
    highest = (sums.shape[-1] - 2) // 2
    length, wanted = sums[..., 0], sums[..., 1]
    right, total = sums[..., 2 : 2 + n], sums[..., 2 + highest : 2 + highest + n]
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = (right == 0) & (total > 0)
        precisions = np.where(missed, 0.5 ** missed.cumsum(axis=-1), right) / total
        # if texts are too short for any m-gram, the precision is 0, and so is the product
        logs = np.where(total > 0, np.log(precisions), -np.inf)
        brevity = np.where(length < wanted, np.exp(1 - wanted / length), 1.0)
        value: Float[np.ndarray, "..."] = np.where(right.any(axis=-1), brevity * np.exp(logs.mean(axis=-1)), 0.0)
    return value


class BleuConfig(OrdersConfig):
    """Settings of BLEU."""

    n: tuple[Order, ...] = Field(default=(1, 2, 3, 4), min_length=1)
    """Lengths n of the longest n-grams, with one BLEU-n each."""
    tokenize: Tokenize = "13a"
    """Tokenisation of sacrebleu: "13a", "intl" (Unicode punctuation), "char", "zh" or "none" (split at spaces)."""
    lowercase: bool = False
    """Whether to ignore case."""


@registry.register("bleu")
class Bleu(Metric):
    """BLEU over all texts, from sacrebleu's counts. Example: ``bleu:4``."""

    Config = BleuConfig
    needs = ("text", "references")
    packages = ("sacrebleu",)
    votes = ("bleu-4",)
    group, goal, decimals = metric.SUMMARY, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._scorer: Any = None
        self._counts: list[list[float]] = []
        self._any_word = False

    def add(self, sample: Sample) -> None:
        """Read the text and the references."""
        config: BleuConfig = self.config
        self._scorer = self._scorer or bleu_scorer(max(config.n), config.tokenize, config.lowercase)
        text, references = sample.need("text", "bleu"), sample.need("references", "bleu")
        self._counts.append(sentence_counts(self._scorer, text, references))
        self._any_word = self._any_word or any(not reference.isspace() for reference in references if reference)

    def result(self) -> dict[str, Score]:
        """The scores, with the key ``bleu-n`` for every n."""
        if not self._any_word:
            raise UndefinedError("bleu: at least one reference must have a word (none has)")
        counts = np.array(self._counts, dtype=np.float64)
        signature, found = self._signature(), {}
        for n in self.config.n:
            measure = self.measure(
                f"BLEU-{n}",
                f"fraction (sacrebleu {signature})",
                f"BLEU-{n} over all texts: geometric mean of the shares of n-grams up to {n} that occur in a "
                "reference, lowered if the texts are shorter than the references.",
            )
            found[f"bleu-{n}"] = Score.of(measure, Statistic(counts, partial(bleu_of_sums, n=n)), len(counts))
        return found

    def _signature(self) -> str:
        # sacrebleu's signature without the number of references, which differs between a system and the human row
        from sacrebleu.metrics.bleu import BLEU

        plain = BLEU(lowercase=self.config.lowercase, tokenize=self.config.tokenize)
        plain.corpus_score(["-"], [["-"]])  # sacrebleu has a signature only after it has scored a text
        return str(plain.get_signature()).partition("|")[2]


# -- BLEU as the evaluation script of LogicNLG computes it.

WEIGHTS = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.33, 0.33, 0.33))
"""Weights of the logarithms of p_1, p_2, p_3, for BLEU-1, -2 and -3. The weights for BLEU-3 sum to 0.99, as in the
script."""

Level = Literal["sentence", "corpus"]


def bleu_logicnlg(
    texts: Iterable[str], references: Iterable[Sequence[str]], level: Level = "sentence"
) -> tuple[float, float, float]:
    """BLEU-1, -2 and -3 of LogicNLG, between 0 and 1.

    For every text, let c be its number of tokens, and r that of the reference closest in length (the shorter if two are
    equally close). Let p_m be the share of the text's m-grams that occur in a reference. An m-gram counts at most as
    often as in the reference with its largest count.

        BLEU-n = min(1, exp(1 - r / c)) · p_1^w_1 · p_2^w_2 · p_3^w_3

    ``WEIGHTS`` has the weights w_m of each n. The result is the mean over texts (``level`` "sentence"), or one BLEU-n
    from counts summed over texts ("corpus"). Without smoothing, a p_m of 0 with a positive weight makes BLEU 0. Texts
    are lower-cased and split at spaces. In LogicNLG, the references of a text are all statements about its table.

    Source: ``evaluate.py`` of LogicNLG (Chen et al., 2020), which calls nltk's ``sentence_bleu``. Scripts of later
    papers on the same data also call ``corpus_bleu``, which gives other values. The result of either ``level``
    equals that of nltk.
    Differs: nltk replaces a p_m of 0 by the smallest positive number (a difference below 1e-100).

    >>> [round(value, 4) for value in bleu_logicnlg(["a b c d"], [["a b c e", "x"]])]
    [0.75, 0.7071, 0.6329]
    """
    references = list(references)
    expect_references(references, "bleu-logicnlg")
    rows = [counts(text, found) for text, found in zip(texts, references, strict=True)]
    if not rows:
        raise ValueError("bleu-logicnlg: no texts")
    table = np.array(rows, dtype=np.float64)
    by_n = [bleu_of_counts(table if level == "sentence" else table.sum(axis=0), n).mean() for n in (1, 2, 3)]
    return float(by_n[0]), float(by_n[1]), float(by_n[2])


def counts(text: str, references: Sequence[str]) -> list[int]:
    """``sentence_counts`` for LogicNLG's tokens and m = 1, 2, 3. If ``text`` has no m-grams, their number is 1."""
    tokens = text.lower().split()
    # split at single spaces: two spaces in a row leave an empty token, which the script counts in the length
    others = [reference.lower().split(" ") for reference in references]
    closest = min((len(other) for other in others), key=lambda length: (abs(length - len(tokens)), length))
    right, total = [], []
    for m in (1, 2, 3):
        grams, most = _grams(tokens, m), Counter[tuple[str, ...]]()
        for other in others:
            most |= _grams(other, m)
        right.append((grams & most).total())
        total.append(max(grams.total(), 1))
    return [len(tokens), closest, *right, *total]


def _grams(tokens: Sequence[str], m: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(m)), strict=False))


def bleu_of_counts(sums: Float[np.ndarray, "... 8"], n: int) -> Float[np.ndarray, "..."]:
    """BLEU-n of LogicNLG from ``sums``: the ``counts`` of one text, or their sums over texts.

    >>> bleu_of_counts(np.array([4, 8, 4, 2, 1, 4, 3, 2], dtype=np.float64), 1).round(6)
    np.float64(0.367879)
    """
    length, closest = sums[..., 0], sums[..., 1]
    weights = np.array(WEIGHTS[n - 1])[:n]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(sums[..., 2 : 2 + n] / sums[..., 5 : 5 + n])
        brevity = np.where(length > closest, 1.0, np.exp(1 - closest / length))
        value: Float[np.ndarray, "..."] = np.where(sums[..., 2] > 0, brevity * np.exp((weights * logs).sum(-1)), 0.0)
    return value


class BleuLogicNLGConfig(MetricConfig):
    """Settings of LogicNLG's BLEU."""

    level: Level = "sentence"
    """ "sentence": mean of each text's BLEU, as in LogicNLG's script; "corpus": one BLEU from summed counts."""


@registry.register("bleu-logicnlg")
class BleuLogicNLG(Metric):
    """BLEU-1, -2 and -3 of LogicNLG's script: lower case, unsmoothed, mean over texts. Example: ``bleu-logicnlg``."""

    Config = BleuLogicNLGConfig
    needs = ("text", "references")
    votes = ("bleu-logicnlg-3",)
    group, goal, decimals = metric.SUMMARY, "higher", 1

    @classmethod
    def on_request(cls) -> str | None:
        """Reason why ``metrics="all"`` leaves this metric out: it reproduces one script, for texts about tables."""
        return "reproduces the BLEU of LogicNLG's script, for texts about tables; to compute it, name it"

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._counts: list[list[int]] = []

    def add(self, sample: Sample) -> None:
        """Read the text and the references."""
        self._counts.append(counts(sample.need("text", "bleu-logicnlg"), sample.need("references", "bleu-logicnlg")))

    def result(self) -> dict[str, Score]:
        """The scores, with the keys ``bleu-logicnlg-1``, ``-2`` and ``-3``."""
        if not self._counts:
            raise UndefinedError("bleu-logicnlg: there are no texts")
        table = np.array(self._counts, dtype=np.float64)
        sentence = self.config.level == "sentence"
        how = "mean over texts" if sentence else "counts summed over all texts"
        found = {}
        for n in (1, 2, 3):
            whole = Statistic(table, partial(bleu_of_counts, n=n))
            statistic = Statistic.mean(bleu_of_counts(table, n)) if sentence else whole
            measure = self.measure(
                f"BLEU-{n} (LogicNLG)",
                f"fraction (lower case, split at spaces, no smoothing, {how})",
                f"BLEU-{n} as in LogicNLG's evaluation script, against all references; {how}.",
            )
            found[f"bleu-logicnlg-{n}"] = Score.of(measure, statistic, len(table))
        return found
