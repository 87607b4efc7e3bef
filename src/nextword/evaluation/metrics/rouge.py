"""ROUGE: overlap of n-grams and of word order between a text and its reference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import expect_references
from nextword.results.records import Measure
from nextword.runtime.corpora.words import letters

Kind = Literal["1", "2", "l", "lsum"]
Value = Literal["f1", "precision", "recall"]

KINDS: tuple[Kind, ...] = ("1", "2", "l", "lsum")
_TITLES: dict[Kind, tuple[str, str]] = {
    "1": ("ROUGE-1", "single words in common"),
    "2": ("ROUGE-2", "pairs of neighbouring words in common"),
    "l": ("ROUGE-L", "longest common subsequence of words"),
    "lsum": ("ROUGE-Lsum", "union of the longest common subsequences of the reference's lines with those of the text"),
}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’)])\s+|(?<=[。！？])")


class RougeTokenizer:
    """Tokenizes texts as rouge-score does, and caches stems.

    The tokens are runs of a-z and 0-9 in lower case. With ``stemmer``, the Porter stemmer is applied to tokens of more
    than three characters. With ``unicode``, letters, digits and combining marks of every script are kept, and tokens
    that are not ASCII are not stemmed. For ASCII texts ``unicode`` makes no difference.

    >>> RougeTokenizer().tokenize("Running cafés"), RougeTokenizer(unicode=True).tokenize("Running cafés")
    (['run', 'caf', 's'], ['run', 'cafés'])
    """

    def __init__(self, stemmer: bool = True, unicode: bool = False) -> None:
        from rouge_score.tokenizers import DefaultTokenizer

        cut = letters if unicode else re.compile("[a-z0-9]+").findall
        published = DefaultTokenizer(use_stemmer=True)
        stem: Callable[[str], str] = lru_cache(maxsize=None)(lambda word: published.tokenize(word)[0])

        def tokenize(text: str) -> list[str]:
            words: list[str] = cut(text.lower())
            return [stem(word) if word.isascii() else word for word in words] if stemmer else words

        # cached, because a text is compared with all its references, and by several kinds of ROUGE
        self.tokenize = lru_cache(maxsize=64)(tokenize)


def split_sentences(text: str) -> str:
    r"""Put each sentence of ``text`` on a line of its own.

    A sentence ends at ``.``, ``!`` or ``?``, perhaps with a closing quote or bracket, if white space follows, and at
    ``。``, ``！`` or ``？``. Abbreviations are not recognised: "Dr. Who" becomes two lines.

    >>> split_sentences('He said "No." She left! 좋다。가자')
    'He said "No."\nShe left!\n좋다。\n가자'
    """
    return "\n".join(part for line in text.split("\n") for part in _SENTENCE_END.split(line) if part)


def rouge(
    text: str, references: Sequence[str], kinds: Sequence[Kind] = KINDS, tokenizer: RougeTokenizer | None = None
) -> dict[Kind, Any]:
    """Map each of ``kinds`` to rouge-score's ``Score`` (precision, recall, F1) for the reference with the best F1.

    Precision is P = M / (size of ``text``), recall is R = M / (size of the reference), and F1 = 2PR / (P + R), or 0 if
    M = 0. For ROUGE-1 and -2, a size is a number of n-grams, and M is the number of shared n-grams, each counted with
    the smaller of its counts in text and reference. Otherwise a size is a number of tokens. For ROUGE-L, M is the
    length of the longest common subsequence. For ROUGE-Lsum, a token of a line of the reference is a hit if it is in
    the longest common subsequence of this line and any line of the text. M is the number of hits in the reference,
    where each token counts at most as often as in the text.

    Source: Lin (2004), as in Google's rouge-score. That package computes ROUGE-1 and -2. ROUGE-L and -Lsum are computed
        here with a faster bit-parallel algorithm, and equal the package's values exactly.

    The default ``tokenizer`` is that of rouge-score with its stemmer.

    >>> {kind: round(score.fmeasure, 3) for kind, score in rouge("the cat sat", ["the cat was sitting"]).items()}
    {'1': 0.571, '2': 0.4, 'l': 0.571, 'lsum': 0.571}
    """
    from rouge_score.rouge_scorer import RougeScorer

    expect_references([references], "rouge")
    if not references:
        raise ValueError("rouge: each text must have a reference (a text without one given)")
    cut = tokenizer or _published()
    counted = [kind for kind in kinds if kind not in _OWN]
    ngrams = RougeScorer([f"rouge{kind}" for kind in counted], tokenizer=cut).score_multi(references, text)
    found: dict[Kind, Any] = {kind: ngrams[f"rouge{kind}"] for kind in counted}
    for kind, compare in _OWN.items():
        if kind in kinds:
            found[kind] = max(compare(text, references, cut), key=lambda score: score.fmeasure)
    return {kind: found[kind] for kind in kinds}


@lru_cache(maxsize=1)
def _published() -> RougeTokenizer:
    return RougeTokenizer()


def _longest(text: str, references: Sequence[str], cut: RougeTokenizer) -> list[Any]:
    tokens = cut.tokenize(text)
    common = CommonSubsequence(tokens)
    lines = [cut.tokenize(reference) for reference in references]
    return [_score(common.length(line), len(tokens), len(line)) for line in lines]


def _longest_of_lines(text: str, references: Sequence[str], cut: RougeTokenizer) -> list[Any]:
    lines = [cut.tokenize(line) for line in text.split("\n") if line]
    commons = [CommonSubsequence(line) for line in lines]
    had = Counter(token for line in lines for token in line)
    return [_of_lines(commons, had, [cut.tokenize(line) for line in ref.split("\n") if line]) for ref in references]


def _of_lines(commons: list[CommonSubsequence], had: Counter[str], lines: list[list[str]]) -> Any:
    wanted = Counter(token for line in lines for token in line)
    if len(commons) == len(lines) == 1:
        hits = commons[0].length(lines[0])  # for one line, no word can count more often than in both texts
    else:
        found = Counter(
            line[place] for line in lines for place in set().union(*(common.places(line) for common in commons))
        )
        hits = (found & had & wanted).total()
    return _score(hits, had.total(), wanted.total())


def _score(hits: int, has: int, wanted: int) -> Any:
    from rouge_score.scoring import Score as RougeScore
    from rouge_score.scoring import fmeasure

    precision, recall = hits / has if has else 0.0, hits / wanted if wanted else 0.0
    return RougeScore(precision=precision, recall=recall, fmeasure=fmeasure(precision, recall))


_OWN: dict[Kind, Callable[[str, Sequence[str], RougeTokenizer], list[Any]]] = {
    "l": _longest,
    "lsum": _longest_of_lines,
}


class RougeConfig(MetricConfig):
    """Settings of ROUGE."""

    kinds: tuple[Kind, ...] = KINDS
    """Kinds of ROUGE: "1", "2", "l" and "lsum". In a spec: ``rouge:1,2,l``."""
    value: Value = "f1"
    """Value to report: "f1", "precision" or "recall". The reference with the highest F1 is always used."""
    stemmer: bool = True
    """Whether to apply the Porter stemmer (English) to words of more than three characters."""
    unicode: bool = False
    """Whether to keep letters outside a-z, which rouge-score drops."""
    split_sentences: bool = False
    """Whether ROUGE-Lsum splits texts into sentences; otherwise each line is a sentence."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parse the arguments of a spec: ``rouge:1,l`` selects ROUGE-1 and ROUGE-L."""
        return {"kinds": tuple(argument.lower() for argument in arguments)} if arguments else {}

    def arguments(self) -> list[str]:
        """The kinds, if not all are selected."""
        return [] if self.kinds == KINDS else list(self.kinds)


@registry.register("rouge")
class Rouge(Metric):
    """ROUGE-1, -2, -L and -Lsum against the best reference, averaged over texts. Example: ``rouge:1,2,l``."""

    Config = RougeConfig
    needs = ("text", "references")
    packages = ("rouge_score",)
    votes = ("rouge-l",)
    group, goal, decimals = metric.SUMMARY, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        if not self.config.kinds:
            raise ValueError(f"rouge.kinds: must name at least one of {', '.join(KINDS)}")
        self._tokenizer: RougeTokenizer | None = None
        self._values: dict[Kind, list[float]] = {kind: [] for kind in self.config.kinds}
        self._letters = self._kept = 0

    def add(self, sample: Sample) -> None:
        """Read the text and the references. A sample whose references have no words has no value."""
        cut = self._tokenizer = self._tokenizer or RougeTokenizer(self.config.stemmer, self.config.unicode)
        text, references = sample.need("text", "rouge"), sample.need("references", "rouge")
        for reference in references:
            kept = len(re.findall("[A-Za-z]", reference))
            self._kept += kept
            self._letters += kept if reference.isascii() else sum(map(str.isalpha, reference))
        if self.config.split_sentences:
            text, references = split_sentences(text), [split_sentences(reference) for reference in references]
        references = [reference for reference in references if cut.tokenize(reference)]
        scores = rouge(text, references, self.config.kinds, cut) if references else {}
        name = "fmeasure" if self.config.value == "f1" else self.config.value
        for kind, values in self._values.items():
            values.append(getattr(scores[kind], name) if scores else np.nan)

    def result(self) -> dict[str, Score]:
        """The scores ``rouge-1``, ``rouge-2``, ``rouge-l`` and ``rouge-lsum`` that the setting ``kinds`` selects."""
        dropped = 1 - self._kept / max(self._letters, 1)
        if self._letters and dropped > 0.5 and not self.config.unicode:
            raise UndefinedError(
                f"rouge: {dropped:.0%} of the references' letters are outside a-z and were dropped, as in "
                f"rouge-score; rouge.unicode=true keeps them"
            )
        return {f"rouge-{kind}": Score.mean(self._measure(kind), np.array(v)) for kind, v in self._values.items()}

    def _measure(self, kind: Kind) -> Measure:
        title, counted = _TITLES[kind]
        config: RougeConfig = self.config
        name = "F1" if config.value == "f1" else config.value
        alphabet = "all letters" if config.unicode else "a-z and 0-9"
        choices = [name, "Porter stems" if config.stemmer else "no stems", alphabet]
        if kind == "lsum":
            choices.append("one sentence per line" if config.split_sentences else "lines as given")
        return self.measure(
            title,
            f"fraction ({', '.join(choices)})",
            f"{title}: {counted}, {name} with the reference that gives the best F1, averaged over texts.",
        )


# -- Longest common subsequences. The bits of an integer are a row of the table, so many tokens are compared at once.


class CommonSubsequence:
    """Computes longest common subsequences of one text with others, by operations on many tokens of the text at once.

    Source: Hyyrö, *Bit-parallel LCS-length computation revisited*, 2004. The table of subsequence lengths has a column
        for each token of the text. Bit j of a row is 0 if the length grows from column j to column j + 1.

    >>> common = CommonSubsequence("the cat sat on the mat".split())
    >>> common.length("the dog sat on a mat".split())
    4
    >>> common.places("the dog sat on a mat".split())
    [0, 2, 3, 5]
    """

    def __init__(self, text: Sequence[Hashable]) -> None:
        self._text = text
        self._where: dict[Hashable, int] = {}
        for place, token in enumerate(text):
            self._where[token] = self._where.get(token, 0) | 1 << place
        self._ones = (1 << len(text)) - 1

    def length(self, other: Sequence[Hashable]) -> int:
        """Length of the longest common subsequence of the text and ``other``."""
        row = self._ones
        for token in other:
            row = self._next(row, token)
        return len(self._text) - row.bit_count()

    def places(self, other: Sequence[Hashable]) -> list[int]:
        """Positions in ``other`` of one longest common subsequence of the text and ``other``.

        If there are several such subsequences, the result is the one that rouge-score returns. The search begins at the
        ends of the text and ``other``. It skips a token of the text instead of one of ``other`` only if this leaves a
        longer common subsequence.
        """
        rows = [self._ones]
        for token in other:
            rows.append(self._next(rows[-1], token))
        row, column, found = len(other), len(self._text), []
        while row and column:
            if other[row - 1] == self._text[column - 1]:
                row, column = row - 1, column - 1
                found.append(row)
            elif _length(rows[row], column - 1) > _length(rows[row - 1], column):
                column -= 1
            else:
                row -= 1
        return found[::-1]

    def _next(self, row: int, token: Hashable) -> int:
        matches = row & self._where.get(token, 0)
        return ((row + matches) | (row - matches)) & self._ones


def _length(row: int, columns: int) -> int:
    """Length within the first ``columns`` of a row, which is the number of zeros among its lowest bits."""
    return columns - (row & ((1 << columns) - 1)).bit_count()
