"""Prompts whose memory holds more than the two right words: other pairs of words, stories about others, wrong answers.

    "Anna could not choose between Rome and Norway. Snow fell on Oslo. [...] Ben could not choose between Paris and
    Italy. In the end Ben took a bus to"
    right: Paris, Italy; in memory too: Rome, Norway, Oslo

A short template is solved by its places: the two words always follow the same ones. Here they follow what also stands
before the wrong words, and only the name tells them apart.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nextword.experiments.tasks.parts.ambiguous.invented_stories import first_names, story
from nextword.experiments.tasks.parts.ambiguous.lexicon import Relation, WordPair
from nextword.experiments.tasks.parts.ambiguous.templates import AmbiguousPrompt

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
"""A statement about two words, and the question that goes with it, of the same person; in words of the stories."""


@dataclass(frozen=True)
class Haystack:
    """What the memory of a prompt holds beside the right words.

    Args:
        pairs: Statements that name two words, each of another person; the question is about one of them.
        distractors: Stories about other words, in any order among the statements.
        noise: Share of the training prompts whose right words are others, which the prompt does not hold.
    """

    pairs: int = 1
    distractors: int = 0
    noise: float = 0.0

    def hide(
        self, prompts: Sequence[AmbiguousPrompt], pairs: dict[str, Sequence[WordPair]], seed: int, training: bool
    ) -> list[AmbiguousPrompt]:
        """The same prompts with all of this around their words; as they are where there is nothing to add.

        Args:
            prompts: Of one part of the data.
            pairs: That part's pairs by group: what the other words are taken from.
            seed: Of what is drawn; a prompt's surroundings depend on it and on the prompt alone.
            training: Whether a share of the prompts is to get wrong answers.

        Raises:
            ValueError: There are too few other words.
        """
        hidden = []
        for prompt in prompts:
            draw = random.Random(f"{seed}/haystack/{prompt.text}")
            others = _without(pairs[prompt.group], {*prompt.words, *prompt.competitors})
            one = prompt if self.pairs == 1 and not self.distractors else self._surrounded(prompt, others, draw)
            wrong = training and draw.random() < self.noise
            hidden.append(replace(one, words=_absent(one.text, others, draw)) if wrong else one)
        return hidden

    def _surrounded(self, prompt: AmbiguousPrompt, others: Sequence[WordPair], draw: random.Random) -> AmbiguousPrompt:
        words = sorted({word for pair in others for word in pair})
        if self.distractors and len(others) < 2:
            raise ValueError(
                f"task.distractors: must be 0 where the smallest part of the data has too few other {prompt.group} for "
                f"a story ({self.distractors} given); give 0, or a larger task.validation_share"
            )
        if len(words) < 2 * self.pairs:
            raise ValueError(
                f"task.pairs: must be at most {max(1, len(words) // 2)} for the {prompt.group} of the smallest part "
                f"of the data ({self.pairs} given); give fewer, or a larger task.validation_share"
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


def _without(pairs: Sequence[WordPair], words: set[str]) -> list[WordPair]:
    return [pair for pair in pairs if not words & set(pair)]


def _absent(text: str, pairs: Sequence[WordPair], draw: random.Random) -> tuple[str, str]:
    """Two words that are not in the text."""
    first, second = draw.sample(sorted({word for pair in pairs for word in pair if word not in text}), 2)
    return first, second
