"""Word pairs of relations (capital and country, city and state, man and woman), from the package or from a file."""

from __future__ import annotations

import hashlib
import random
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain, combinations
from pathlib import Path

WordPair = tuple[str, str]

PRONOUNS = frozenset({"he", "she", "his", "her"})
"""Words that do not fit "the {}". Pairs with such a word are dropped, as in the published task."""

SECTIONS = {
    "capital-common-countries": "capital",
    "capital-world": "capital",
    "city-in-state": "city",
    "family": "family",
}
"""Sections of the Google analogy file, and the relation that each belongs to. The first two sections overlap."""


@dataclass(frozen=True)
class Relation:
    """All pairs of one relation. ``group`` ("places" or "people") selects the templates."""

    name: str
    group: str
    pairs: tuple[WordPair, ...]


@dataclass(frozen=True)
class Lexicon:
    """Relations with their word pairs, the source of the pairs, and the SHA-256 of this source."""

    relations: tuple[Relation, ...]
    source: str
    sha256: str

    def words(self) -> list[str]:
        """All distinct words, in order of appearance."""
        return list(dict.fromkeys(word for r in self.relations for word in chain.from_iterable(r.pairs)))


@dataclass(frozen=True)
class PairSplit:
    """The pairs of one relation in three disjoint splits. A prompt is made from two pairs of the same split."""

    train: tuple[WordPair, ...]
    validation: tuple[WordPair, ...]
    test: tuple[WordPair, ...]


def data_text(name: str) -> str:
    """Read the file ``name`` in the package's folder ``ambiguous_data``."""
    return (resources.files("nextword.experiments.tasks") / "ambiguous_data" / name).read_text(encoding="utf-8")


def embedded() -> Lexicon:
    """Load the lexicon that is part of the package.

    >>> {relation.name: len(relation.pairs) for relation in embedded().relations}
    {'capital': 70, 'city': 40, 'family': 42}
    """
    text = data_text("lexicon.toml")
    relations = tuple(
        Relation(name, table["group"], tuple((first, second) for first, second in table["pairs"]))
        for name, table in tomllib.loads(text).items()
    )
    return Lexicon(relations, "embedded lexicon", hashlib.sha256(text.encode()).hexdigest())


def from_analogies(path: Path) -> Lexicon:
    """Read pairs from the Google analogy file (``questions-words.txt``). Its lines ``a b c d`` mean a : b = c : d.

    Raises:
        ValueError: If the file is missing or not UTF-8, a line is malformed, or there is no known section.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"task.analogies: cannot read '{path}' ({error.strerror or error}). Give the path of questions-words.txt, "
            f"or leave the key out for the embedded lexicon."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"task.analogies: '{path}' is not UTF-8 text (byte {error.start}).") from None
    pairs: dict[str, dict[WordPair, None]] = {}
    section: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if words[0].startswith(":"):
            section = line.strip().lstrip(":").strip()
            continue
        if section is None:
            raise ValueError(
                f"{path}:{number}: a section must come before the first quadruple; add a line ': section-name'."
            )
        if len(words) != 4:
            given = f"{len(words)} given: '{line.strip()[:80]}'"
            raise ValueError(f"{path}:{number}: must have four words 'a b c d' ({given}).")
        for pair in ((words[0], words[1]), (words[2], words[3])):
            if section in SECTIONS and not PRONOUNS.intersection(pair):
                pairs.setdefault(SECTIONS[section], {})[pair] = None
    if not pairs:
        raise ValueError(
            f"task.analogies: '{path}' must have at least one of the sections {', '.join(SECTIONS)} (none found)."
        )
    relations = tuple(
        Relation(name, "people" if name == "family" else "places", tuple(members)) for name, members in pairs.items()
    )
    return Lexicon(relations, f"Google analogies ({path.name})", hashlib.sha256(text.encode()).hexdigest())


def split_pairs(relation: Relation, shares: tuple[float, float], seed: int) -> PairSplit:
    """Split the pairs of a relation: ``shares`` for training and validation, and the rest for testing.

    Pairs that share a word (several cities of one state) are put in the same split. So no word of a test pair occurs in
    a training pair of this relation. The sizes of splits are therefore approximate.

    Raises:
        ValueError: If a split has fewer than two pairs, because a prompt is made from two.
    """
    families = _families(sorted(relation.pairs))
    # each relation has its own generator, so that an added relation does not change the splits of the others
    random.Random(f"{seed}/{relation.name}").shuffle(families)
    missing = [share * len(relation.pairs) for share in (*shares, 1 - sum(shares))]
    parts: list[list[WordPair]] = [[], [], []]
    for family in sorted(families, key=len, reverse=True):
        neediest = missing.index(max(missing))
        parts[neediest] += family
        missing[neediest] -= len(family)
    for name, part in zip(("train", "validation", "test"), parts, strict=True):
        if len(part) < 2:
            raise ValueError(
                f"relation '{relation.name}': {len(relation.pairs)} pairs with shares {shares} leave fewer than two "
                f"pairs for '{name}', and an example needs two. Use more pairs or other shares."
            )
    train, validation, test = (tuple(part) for part in parts)
    return PairSplit(train, validation, test)


def _families(pairs: list[WordPair]) -> list[list[WordPair]]:
    # groups of pairs that are connected by shared words
    families: list[tuple[set[str], list[WordPair]]] = []
    for pair in pairs:
        touched = [family for family in families if family[0] & set(pair)]
        families = [family for family in families if not family[0] & set(pair)]
        words = set(pair).union(*(words for words, _ in touched))
        families.append((words, [one for _, members in touched for one in members] + [pair]))
    return [members for _, members in families]


# -- Ambiguous prompts: two words on a diagonal of an analogy, both of which are correct next words.
#
# For pairs a : b and c : d, the words (a, d) are one diagonal of the parallelogram and (b, c) the other. A prompt that
# names the words of one diagonal should be continued with one of *these* words. A softmax over one hidden state also
# gives probability to the words of the other diagonal, because their embeddings have the same sum.

TEMPLATES: dict[str, tuple[str, ...]] = {
    "people": (
        "Last night the {} and the {} came to dinner, and afterwards I walked home with the",
        "A parcel had come for both the {} and the {}, but it was opened by the",
        "We asked the {} and the {} to sing, and the first to begin was the",
        "For a week nobody heard from the {} or the {}, until somebody met the",
    ),
    "places": (
        "She could not choose between {} and {}, so in the end she took a bus to",
        "After one year in {} and one year in {}, he decided to buy a house in",
        "Her friends moved to {} and {}, and this summer she will stay with them in",
        "The firm has offices in {} and {}, and the new director comes from",
    ),
}
"""Our templates. Each slot {} follows a space, so that a word has the same tokens in a slot as after the prompt."""

PAPER_TEMPLATES: dict[str, tuple[str, ...]] = {
    "people": (
        "The {} and the {} are my favorites, and I especially love the",
        "After debating whether to bow to the {} or the {}, the jester decided to bow to the",
        *TEMPLATES["people"][:2],
    ),
    "places": (" {} and {} are my favorites, and I especially love", *TEMPLATES["places"][:3]),
}
"""Templates that HistAlign prints (table 9, figure 1), completed to four with ours. If a slot is at the start of the
text, a space precedes it, so that this word also has the same tokens as the answer. HistAlign accepts the word with and
without the space."""

WORDINGS = {"ours": TEMPLATES, "paper": PAPER_TEMPLATES}
"""Templates by their name in the setting."""


def template_texts(wording: str = "ours") -> list[str]:
    """All templates of ``wording``, with empty slots."""
    return [template.format("", "") for group in WORDINGS[wording].values() for template in group]


@dataclass(frozen=True)
class AmbiguousPrompt:
    """One prompt, its two correct answers in the order of the prompt, and the two wrong answers."""

    text: str
    group: str
    words: tuple[str, str]
    competitors: tuple[str, str]


def diagonals(first: WordPair, second: WordPair) -> list[tuple[WordPair, WordPair]]:
    """For the word pairs (a, b) and (c, d): the diagonals (a, d) and (b, c), each followed by the other diagonal.

    Empty if the pairs share a word (Texas below).

    >>> diagonals(("Paris", "France"), ("Rome", "Italy"))
    [(('Paris', 'Italy'), ('France', 'Rome')), (('France', 'Rome'), ('Paris', 'Italy'))]
    >>> diagonals(("Dallas", "Texas"), ("Houston", "Texas"))
    []
    """
    (a, b), (c, d) = first, second
    if len({a, b, c, d}) < 4:
        return []
    return [((a, d), (b, c)), ((b, c), (a, d))]


def prompts(pairs: Sequence[WordPair], group: str, wording: str = "ours") -> list[AmbiguousPrompt]:
    """All prompts from ``pairs``: each diagonal of every two pairs, in both orders, in each template of ``group``."""
    return [
        AmbiguousPrompt(template.format(*shown), group, shown, other)
        for first, second in combinations(pairs, 2)
        for diagonal, other in diagonals(first, second)
        for template in WORDINGS[wording][group]
        for shown in (diagonal, (diagonal[1], diagonal[0]))
    ]


def sample(available: Iterable[AmbiguousPrompt], count: int, seed: int) -> list[AmbiguousPrompt]:
    """Sample at most ``count`` prompts, as evenly as possible over the groups. The seed determines the sample."""
    groups: dict[str, list[AmbiguousPrompt]] = {}
    for prompt in available:
        groups.setdefault(prompt.group, []).append(prompt)
    chosen: list[AmbiguousPrompt] = []
    left = count
    # The smallest group comes first. The number of prompts that it lacks is shared by the other groups.
    for done, (group, members) in enumerate(sorted(groups.items(), key=lambda item: (len(item[1]), item[0]))):
        share = min(len(members), left // (len(groups) - done))
        chosen += random.Random(f"{seed}/{group}").sample(members, share)
        left -= share
    random.Random(seed).shuffle(chosen)
    return chosen
