"""Generated text from which a tiny model learns the words and their relations before any method is compared on them.

It stands in for the pretraining of a published model: every word of the lexicon occurs in statements of its relation,
in lists and in small stories, with the repetitions of natural text. No ambiguous template occurs in it.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

from nextword.experiments.tasks.parts.ambiguous.lexicon import Lexicon, Relation, WordPair, data_text

FACTS_PER_DOCUMENT = 3
SHARES = {"facts": 0.6, "stories": 0.3, "lists": 0.1}
"""Share of documents that state relations, tell a story, or read a list twice."""
LIST_LENGTHS = (3, 4, 5, 6, 7)
LIST_FRAME = "The list says {line}. I read it again: {line}."


@cache
def frames() -> dict[str, Any]:
    """Sentence frames, by relation and by group."""
    return tomllib.loads(data_text("frames.toml"))


def documents(lexicon: Lexicon, count: int, seed: int) -> Iterator[str]:
    """``count`` short documents; every pair is the subject of about the same number of them."""
    rng = random.Random(seed)
    all_frames = frames()
    subjects = [(relation, pair) for relation in lexicon.relations for pair in relation.pairs]
    for number in range(count):
        if number % len(subjects) == 0:
            rng.shuffle(subjects)
        relation, pair = subjects[number % len(subjects)]
        sort = rng.choices(list(SHARES), weights=list(SHARES.values()))[0]
        if sort == "facts":
            facts = all_frames[relation.name]["facts"]
            about = [pair, *(rng.choice(relation.pairs) for _ in range(FACTS_PER_DOCUMENT - 1))]
            yield " ".join(_fill(rng.choice(facts), relation, one, all_frames, rng) for one in about)
        elif sort == "lists":
            yield _twice(relation, pair, rng)
        else:
            story = rng.choice(all_frames["groups"][relation.group]["stories"])
            yield _fill(story, relation, pair, all_frames, rng)


def frame_words() -> list[str]:
    """Texts with every word and name that a frame can put around the words of the lexicon."""
    all_frames = frames()
    blank = dict.fromkeys("abcdxyznm", "")
    relations = [table for name, table in all_frames.items() if name not in ("names", "groups")]
    sentences = [frame for table in relations for frame in table["facts"]]
    sentences += [prompt for table in relations for prompt, _ in table["probes"]]
    sentences += [frame for table in all_frames["groups"].values() for frame in table["stories"]]
    lists = LIST_FRAME.format(line="the, the")
    return [*all_frames["names"], *(sentence.format(**blank) for sentence in sentences), lists]


def first_names() -> list[str]:
    """The names that stories give to people."""
    names: list[str] = frames()["names"]
    return names


def story(relation: Relation, pair: WordPair, rng: random.Random, without: str) -> str:
    """A small story about ``pair`` in which nobody is called ``without``."""
    all_frames = frames()
    names = [name for name in all_frames["names"] if name != without]
    frame = rng.choice(all_frames["groups"][relation.group]["stories"])
    return _fill(frame, relation, pair, {**all_frames, "names": names}, rng)


def probes(lexicon: Lexicon) -> list[tuple[str, str, str]]:
    """Relation, prompt and completing word, for every pair: what a model that knows the relations gets right."""
    all_frames = frames()
    return [
        (relation.name, prompt.format(a=first, b=second), answer.format(a=first, b=second))
        for relation in lexicon.relations
        for first, second in relation.pairs
        for prompt, answer in all_frames[relation.name]["probes"]
    ]


def _twice(relation: Relation, pair: WordPair, rng: random.Random) -> str:
    words = {word for one in relation.pairs for word in one} - {pair[0]}
    listed = [pair[0], *rng.sample(sorted(words), rng.choice(LIST_LENGTHS) - 1)]
    rng.shuffle(listed)
    article = "the " if relation.group == "people" else ""
    line = ", ".join(article + word for word in listed)
    return LIST_FRAME.format(line=line)


def _fill(frame: str, relation: Relation, pair: WordPair, all_frames: dict[str, Any], rng: random.Random) -> str:
    other = rng.choice([one for one in relation.pairs if one != pair])
    # The subject takes part in the free slots too, so that rare words are as frequent there as anywhere.
    word = rng.choice(pair)
    strangers = rng.sample([w for one in relation.pairs for w in one if w != word], 2)
    x, y, z = rng.sample([word, *strangers], 3)
    n, m = rng.sample(all_frames["names"], 2)
    return frame.format(a=pair[0], b=pair[1], c=other[0], d=other[1], x=x, y=y, z=z, n=n, m=m)
