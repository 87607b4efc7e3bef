"""Ambiguous prompts as training rows, in three splits that share no pair of words."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from nextword.experiments.tasks.ambiguous_words import (
    AmbiguousPrompt,
    Lexicon,
    PairSplit,
    Relation,
    WordPair,
    data_text,
    prompts,
    sample,
    split_pairs,
)
from nextword.experiments.tasks.task import Data
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.scoring.text_tokens import encode_answer, encode_prompt
from nextword.runtime.corpora import PARTS

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from nextword.experiments.tasks.ambiguous import AmbiguousConfig


class AmbiguousPrompts(Data):
    """Data with two rows per prompt, one for each correct word. Only the tokens of this word are labels."""

    def __init__(self, lexicon: Lexicon, config: AmbiguousConfig) -> None:
        self.lexicon, self._config = lexicon, config
        shares = config.train_share, config.validation_share
        self.splits: dict[str, PairSplit] = {
            relation.name: split_pairs(relation, shares, config.split_seed) for relation in lexicon.relations
        }

    @cached_property
    def _available(self) -> dict[str, list[AmbiguousPrompt]]:
        return {
            part: [
                prompt
                for relation in self.lexicon.relations
                for prompt in prompts(getattr(self.splits[relation.name], part), relation.group, self._config.templates)
            ]
            for part in PARTS
        }

    @cached_property
    def prompts(self) -> dict[str, list[AmbiguousPrompt]]:
        """A mapping from the name of each split to its sampled prompts."""
        config = self._config
        found: dict[str, list[AmbiguousPrompt]] = {}
        haystack = Haystack(config.pairs, config.distractors, config.noise)
        for part in PARTS:
            pairs: dict[str, list[WordPair]] = {}
            for relation in self.lexicon.relations:
                pairs.setdefault(relation.group, []).extend(getattr(self.splits[relation.name], part))
            chosen = sample(self._available[part], getattr(config, f"{part}_prompts"), config.split_seed)
            found[part] = haystack.hide(chosen, pairs, config.split_seed, part == "train")
        return found

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, and leaks: how many of all test pairs and prompts are also in the training or validation data."""
        trained_pairs = set(chain.from_iterable((*s.train, *s.validation) for s in self.splits.values()))
        tested_pairs = set(chain.from_iterable(s.test for s in self.splits.values()))
        trained_texts = {prompt.text for part in ("train", "validation") for prompt in self._available[part]}
        tested_texts = {prompt.text for prompt in self._available["test"]}
        sizes: dict[str, int | float | str] = {}
        for relation in self.lexicon.relations:
            for part in PARTS:
                sizes[f"{relation.name}_{part}_pairs"] = len(getattr(self.splits[relation.name], part))
        for part in PARTS:
            sizes[f"{part}_prompts"] = len(self.prompts[part])
            sizes[f"{part}_prompts_available"] = len(self._available[part])
        return {
            "source": self.lexicon.source,
            "sha256": self.lexicon.sha256,
            "pairs": sum(len(relation.pairs) for relation in self.lexicon.relations),
            "split": "pairs of a relation dealt out once, those that share a word together; quadruples inside a part",
            **sizes,
            "leak_pairs": len(trained_pairs & tested_pairs),
            "leak_prompts": len(trained_texts & tested_texts),
            "words_in_training_and_test": len(
                set(chain.from_iterable(trained_pairs)) & set(chain.from_iterable(tested_pairs))
            ),
        }

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Rows of the training prompts."""
        return _rows(self.prompts["train"], tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Rows of the validation prompts."""
        return _rows(self.prompts["validation"], tokenizer)


def _rows(ambiguous: Sequence[AmbiguousPrompt], tokenizer: PreTrainedTokenizerBase) -> Dataset:
    from datasets import Dataset

    rows: dict[str, list[list[int]]] = {"input_ids": [], "labels": []}
    for prompt in ambiguous:
        ids = encode_prompt(tokenizer, prompt.text)
        for word in prompt.words:
            answer = encode_answer(tokenizer, prompt.text, word)
            rows["input_ids"].append(ids + answer)
            rows["labels"].append([IGNORED_LABEL] * len(ids) + answer)
    return Dataset.from_dict(rows)


# -- Prompts that contain more than the two correct words: other pairs of words, and stories about other words.
#
#     "Anna could not choose between Rome and Norway. Snow fell on Oslo. [...] Ben could not choose between Paris and
#     Italy. In the end Ben took a bus to"
#     right: Paris, Italy; also in the prompt: Rome, Norway, Oslo
#
# In a short template a model can find the correct words by position, because they always follow the same words. In
# these prompts the same words also come before wrong words, and only the person's name shows which pair is correct.

QUESTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "people": (
        ("{n} asked the {} and the {} to sing.", "For {n} the first to sing was the"),
        ("Last night {n} met the {} and the {} at dinner.", "Then {n} walked home with the"),
    ),
    "places": (
        ("{n} could not choose between {} and {}.", "In the end {n} took a bus to"),
        ("{n} stayed one year in {} and one year in {}.", "Then {n} decided to buy a house in"),
    ),
}
"""Templates of a statement about a person ({n}) and two words, and of a question about the same person."""


@dataclass(frozen=True)
class Haystack:
    """Text that surrounds the correct words in a prompt."""

    pairs: int = 1
    """Number of statements with two words each, about one person each. The question is about one of these people."""
    distractors: int = 0
    """Number of stories about other words, mixed with the statements."""
    noise: float = 0.0
    """Share of the training prompts with wrong labels: words that are not in the prompt."""

    def hide(
        self, prompts: Sequence[AmbiguousPrompt], pairs: Mapping[str, Sequence[WordPair]], seed: int, training: bool
    ) -> list[AmbiguousPrompt]:
        """Add the surrounding text to ``prompts``. With the default settings, prompts are unchanged.

        The added words are from ``pairs``, a mapping from group to the word pairs of the same split. The added text
        depends only on the prompt and ``seed``. If ``training`` is true, the share ``noise`` of the prompts gets wrong
        labels.

        Raises:
            ValueError: If there are too few other words.
        """
        hidden = []
        for prompt in prompts:
            draw = random.Random(f"{seed}/haystack/{prompt.text}")
            own = {*prompt.words, *prompt.competitors}
            others = [pair for pair in pairs[prompt.group] if not own & set(pair)]
            one = prompt if self.pairs == 1 and not self.distractors else self._surrounded(prompt, others, draw)
            if training and draw.random() < self.noise:
                absent = sorted({word for pair in others for word in pair if word not in one.text})
                first, second = draw.sample(absent, 2)
                one = replace(one, words=(first, second))
            hidden.append(one)
        return hidden

    def _surrounded(self, prompt: AmbiguousPrompt, others: Sequence[WordPair], draw: random.Random) -> AmbiguousPrompt:
        words = sorted({word for pair in others for word in pair})
        if self.distractors and len(others) < 2:
            raise ValueError(
                f"task.distractors: must be 0, because the smallest split has too few other {prompt.group} for a "
                f"story ({self.distractors} given); give 0, or raise task.validation_share"
            )
        if len(words) < 2 * self.pairs:
            raise ValueError(
                f"task.pairs: must be at most {max(1, len(words) // 2)}, because the smallest split has only "
                f"{len(words)} different {prompt.group} ({self.pairs} given); lower it, or raise task.validation_share"
            )
        asked, *names = draw.sample(first_names(), self.pairs)
        statement, question = draw.choice(QUESTIONS[prompt.group])
        other_words = iter(draw.sample(words, 2 * len(names)))
        sentences = [statement.format(*prompt.words, n=asked)]
        sentences += [statement.format(next(other_words), next(other_words), n=name) for name in names]
        relation = Relation("others", prompt.group, tuple(others))
        sentences += [story(relation, draw.choice(others), draw, without=asked) for _ in range(self.distractors)]
        draw.shuffle(sentences)
        return replace(prompt, text=" ".join([*sentences, question.format(n=asked)]))


# -- Generated text from which a small model learns the words and their relations before the methods are compared.
#
# It replaces the pretraining of a published model. Every word of the lexicon occurs in statements of its relation, in
# lists and in short stories, and words repeat as in natural text. No ambiguous template occurs in it.

FACTS_PER_DOCUMENT = 3
SHARES = {"facts": 0.6, "stories": 0.3, "lists": 0.1}
"""Shares of the generated documents that state relations, tell a story, or contain the same list twice."""
LIST_LENGTHS = (3, 4, 5, 6, 7)
LIST_FRAME = "The list says {line}. I read it again: {line}."


@cache
def frames() -> dict[str, Any]:
    """The content of frames.toml: templates of sentences for each relation and each group, and first names."""
    return tomllib.loads(data_text("frames.toml"))


def documents(lexicon: Lexicon, count: int, seed: int) -> Iterator[str]:
    """Generate ``count`` short documents. Each word pair is the subject of about the same number of documents."""
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
            words = {word for one in relation.pairs for word in one} - {pair[0]}
            listed = [pair[0], *rng.sample(sorted(words), rng.choice(LIST_LENGTHS) - 1)]
            rng.shuffle(listed)
            article = "the " if relation.group == "people" else ""
            yield LIST_FRAME.format(line=", ".join(article + word for word in listed))
        else:
            frame = rng.choice(all_frames["groups"][relation.group]["stories"])
            yield _fill(frame, relation, pair, all_frames, rng)


def frame_words() -> list[str]:
    """Texts with all words and first names of the templates, from which a word tokenizer is trained."""
    all_frames = frames()
    blank = dict.fromkeys("abcdxyznm", "")
    relations = [table for name, table in all_frames.items() if name not in ("names", "groups")]
    sentences = [frame for table in relations for frame in table["facts"]]
    sentences += [prompt for table in relations for prompt, _ in table["probes"]]
    sentences += [frame for table in all_frames["groups"].values() for frame in table["stories"]]
    lists = LIST_FRAME.format(line="the, the")
    return [*all_frames["names"], *(sentence.format(**blank) for sentence in sentences), lists]


def first_names() -> list[str]:
    """First names of the people in the stories."""
    names: list[str] = frames()["names"]
    return names


def story(relation: Relation, pair: WordPair, rng: random.Random, without: str) -> str:
    """Generate a short story about ``pair``, in which no person has the name ``without``."""
    all_frames = frames()
    names = [name for name in all_frames["names"] if name != without]
    frame = rng.choice(all_frames["groups"][relation.group]["stories"])
    return _fill(frame, relation, pair, {**all_frames, "names": names}, rng)


def probes(lexicon: Lexicon) -> list[tuple[str, str, str]]:
    """Triples for each word pair: the name of its relation, a prompt, and the word that a model should predict next."""
    all_frames = frames()
    return [
        (relation.name, prompt.format(a=first, b=second), answer.format(a=first, b=second))
        for relation in lexicon.relations
        for first, second in relation.pairs
        for prompt, answer in all_frames[relation.name]["probes"]
    ]


def _fill(frame: str, relation: Relation, pair: WordPair, all_frames: dict[str, Any], rng: random.Random) -> str:
    other = rng.choice([one for one in relation.pairs if one != pair])
    # The subject may also fill the other slots, so that rare words are as frequent there as other words.
    word = rng.choice(pair)
    strangers = rng.sample([w for one in relation.pairs for w in one if w != word], 2)
    x, y, z = rng.sample([word, *strangers], 3)
    n, m = rng.sample(all_frames["names"], 2)
    return frame.format(a=pair[0], b=pair[1], c=other[0], d=other[1], x=x, y=y, z=z, n=n, m=m)
