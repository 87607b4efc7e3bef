"""Ambiguous prompts: two words on the diagonal of an analogy, either of which may come next, and nothing else.

For pairs a : b and c : d the words (a, d) lie on one diagonal of the parallelogram and (b, c) on the other. A prompt
that names the words of one diagonal is to be continued with one of *them*; a softmax over one hidden state is drawn to
the words of the other diagonal, whose embeddings add up to the same vector.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from nextword.experiments.tasks.parts.ambiguous.lexicon import WordPair

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
"""Our own wording. Each slot follows a word, so that a word has the same tokens in the prompt and as the answer."""

PAPER_TEMPLATES: dict[str, tuple[str, ...]] = {
    "people": (
        "The {} and the {} are my favorites, and I especially love the",
        "After debating whether to bow to the {} or the {}, the jester decided to bow to the",
        *TEMPLATES["people"][:2],
    ),
    "places": (" {} and {} are my favorites, and I especially love", *TEMPLATES["places"][:3]),
}
"""Those that HistAlign prints (table 9, figure 1), filled up to four with ours. Where a slot begins the text, a space
stands before it, so that this word too has the tokens of the answer; the paper counts either form as right."""

WORDINGS = {"ours": TEMPLATES, "paper": PAPER_TEMPLATES}
"""Templates by the name that the setting gives them."""


def template_texts(wording: str = "ours") -> list[str]:
    """All templates with empty slots."""
    return [template.format("", "") for group in WORDINGS[wording].values() for template in group]


@dataclass(frozen=True)
class AmbiguousPrompt:
    """One prompt, its two right answers in the order shown, and the other diagonal."""

    text: str
    group: str
    words: tuple[str, str]
    competitors: tuple[str, str]


def diagonals(first: WordPair, second: WordPair) -> list[tuple[WordPair, WordPair]]:
    """Both diagonals of an analogy, each with the other one; none where a word occurs twice (two cities of one state).

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
    """Every prompt of these pairs: each two pairs, both diagonals, every template, both orders."""
    return [
        AmbiguousPrompt(template.format(*shown), group, shown, other)
        for first, second in combinations(pairs, 2)
        for diagonal, other in diagonals(first, second)
        for template in WORDINGS[wording][group]
        for shown in (diagonal, (diagonal[1], diagonal[0]))
    ]


def sample(available: Iterable[AmbiguousPrompt], count: int, seed: int) -> list[AmbiguousPrompt]:
    """At most ``count`` prompts, as evenly over the groups as there are prompts, always the same ones for a seed."""
    groups: dict[str, list[AmbiguousPrompt]] = {}
    for prompt in available:
        groups.setdefault(prompt.group, []).append(prompt)
    chosen: list[AmbiguousPrompt] = []
    left = count
    # The smallest group first: what it cannot fill goes to the others.
    for done, (group, members) in enumerate(sorted(groups.items(), key=lambda item: (len(item[1]), item[0]))):
        share = min(len(members), left // (len(groups) - done))
        chosen += random.Random(f"{seed}/{group}").sample(members, share)
        left -= share
    random.Random(seed).shuffle(chosen)
    return chosen
