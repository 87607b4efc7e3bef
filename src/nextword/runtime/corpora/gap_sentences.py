"""Gap sentences: one sentence is removed from each paragraph as the target, and the other sentences are the source.

Source: PEGASUS (Zhang, Zhao, Saleh & Liu, ICML 2020), section 3.1, with one gap in each paragraph.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from nextword.runtime.corpora.words import words
from nextword.settings.config import Settings

MASK = "<mask>"
"""Placeholder in a source for the tokenizer's mask token."""


@dataclass(frozen=True)
class Pair:
    """A source text and its target, with further human references (``others``).

    ``<mask>`` in a source stands for the tokenizer's mask token.
    """

    source: str
    target: str
    others: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """All human references for the source."""
        return self.target, *self.others

    @property
    def text(self) -> str:
        """The source with the target in place of ``<mask>``. Without ``<mask>``, the target follows on a new line."""
        return self.source.replace(MASK, self.target, 1) if MASK in self.source else f"{self.source}\n{self.target}"


class GapConfig(Settings):
    """Settings for making pairs from plain text."""

    choose: Literal["overlap", "random"] = "overlap"
    """Which sentence is removed. "overlap": the one with the largest ROUGE-1 F1 with the rest of its paragraph.
    "random": a random one, which depends on the seed."""
    paragraph: Literal["line", "block"] = "line"
    """What a paragraph is: one line ("line"), or the lines up to the next empty line ("block")."""
    min_sentences: int = Field(default=3, ge=2)
    """Minimum sentences per paragraph. Shorter paragraphs are left out."""
    max_sentences: int = Field(default=8, ge=2)
    """Maximum number of sentences per paragraph. Longer paragraphs are cut into pieces with about equally many
    sentences, and a sentence is removed from each piece."""


# Not after an initial, or an abbreviation before a capital. A look-behind has a fixed width, so each width has its own.
_ABBREVIATED = r"""(?<!\b[A-Z])(?<!\b(?:No|Mr|Ms|Dr|St|vs|Lt))(?<!\b(?:Mrs|Gen|Col|Rev|Sgt|Vol))(?<!\b(?:Prof|Capt))"""
_END = re.compile(
    rf"""(?:(?=[.!?\u2026]){_ABBREVIATED}[.!?\u2026]+["'\u2019\u201d)\]]*(?=\s+[^\sa-z])"""
    r"""|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d]*)\s*"""
)


def sentences(paragraph: str) -> list[str]:
    """Sentences of a paragraph, by a simple rule.

    A sentence ends at ``.``, ``!`` or ``?``, with closing quotes or brackets, if white space and something other than a
    small letter follow. It does not end after an initial or one of a few abbreviations (titles, "No."). In Chinese and
    Japanese it ends at full-width marks.

    >>> sentences('He met Dr. J. Smith. "Where?" she said . It was 3.5 miles, i.e. far.')
    ['He met Dr. J. Smith.', '"Where?" she said .', 'It was 3.5 miles, i.e. far.']
    """
    parts, begin = [], 0
    for end in _END.finditer(paragraph):
        parts.append(paragraph[begin : end.end()].strip())
        begin = end.end()
    parts.append(paragraph[begin:].strip())
    return [part for part in parts if part]


def by_overlap(parts: Sequence[str], seed: str) -> int:
    """Index of the sentence in ``parts`` with the largest ROUGE-1 F1 with all other sentences together.

    PEGASUS calls this choice "Ind-Orig". Repeated words count repeatedly. If several sentences have the largest F1, the
    first of them is chosen. ``seed`` is not used.

    >>> by_overlap(["A dog barked.", "The dog saw the cat.", "The cat ran."], seed="")
    1
    """
    counted = [Counter(words(part)) for part in parts]
    everything = Counter(word for one in counted for word in one.elements())
    # F1 = 2 * shared / (words in the sentence + words in the others). The denominator is the same for all sentences.
    shared = [sum(min(count, everything[word] - count) for word, count in one.items()) for one in counted]
    return shared.index(max(shared))


def by_chance(parts: Sequence[str], seed: str) -> int:
    """Index of a pseudo-random sentence in ``parts``. It depends only on ``seed`` and ``parts``.

    >>> by_chance(["One.", "Two."], "0") == by_chance(["One.", "Two."], "0")
    True
    """
    return random.Random(f"{seed}/{' '.join(parts)}").randrange(len(parts))


CHOICES: dict[str, Callable[[Sequence[str], str], int]] = {"overlap": by_overlap, "random": by_chance}


def gap_pairs(text: str, config: GapConfig, seed: int) -> Iterator[Pair]:
    """Yields a pair for each paragraph of ``text``, or each piece if it has over ``config.max_sentences`` sentences.

    Paragraphs and pieces with fewer than ``config.min_sentences`` sentences are left out.

    >>> [pair] = gap_pairs("A dog barked. The dog saw the cat. The cat ran.", GapConfig(), seed=0)
    >>> pair.source, pair.target
    ('A dog barked. <mask> The cat ran.', 'The dog saw the cat.')
    """
    choose = CHOICES[config.choose]
    for paragraph in PARAGRAPHS[config.paragraph](text):
        for piece in _pieces(sentences(paragraph), config.max_sentences):
            if len(piece) >= config.min_sentences:
                gap = choose(piece, str(seed))
                yield Pair(" ".join([*piece[:gap], MASK, *piece[gap + 1 :]]), piece[gap])


def lines(text: str) -> list[str]:
    """The paragraphs of ``text``: each line that is not blank."""
    return [line for line in text.split("\n") if line.strip()]


def blocks(text: str) -> list[str]:
    """The paragraphs of ``text``: each run of lines between blank lines, joined to one line."""
    return [" ".join(block.split()) for block in re.split(r"\n\s*\n", text) if block.strip()]


PARAGRAPHS: dict[str, Callable[[str], list[str]]] = {"line": lines, "block": blocks}


def _pieces(parts: Sequence[str], longest: int) -> Iterator[Sequence[str]]:
    count = -(-len(parts) // longest)
    for number in range(count):
        yield parts[number * len(parts) // count : (number + 1) * len(parts) // count]
