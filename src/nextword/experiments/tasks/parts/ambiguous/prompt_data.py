"""Ambiguous prompts as training rows, in three parts that share no pair of words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from nextword.experiments.tasks.parts.ambiguous.haystack import Haystack
from nextword.experiments.tasks.parts.ambiguous.lexicon import Lexicon, PairSplit, WordPair, split_pairs
from nextword.experiments.tasks.parts.ambiguous.templates import AmbiguousPrompt, prompts, sample
from nextword.experiments.tasks.task import Data
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.scoring.prompt_encoding import encode_answer, encode_prompt
from nextword.runtime.corpora import PARTS

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class AmbiguousPrompts(Data):
    """Two rows for each prompt, one for each word; only the word's own tokens are labels.

    Args:
        lexicon: Pairs of words by relation.
        shares: Of the pairs of each relation, those that train and those that validate.
        sizes: Prompts to train, validate and test on at most.
        seed: Of the split and of the samples.
        wording: Of the templates.
        haystack: What prompts hold beside their two words.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        shares: tuple[float, float],
        sizes: tuple[int, int, int],
        seed: int,
        wording: str,
        haystack: Haystack,
    ) -> None:
        self.lexicon, self._sizes, self._seed = lexicon, sizes, seed
        self._wording, self._haystack = wording, haystack
        self.splits: dict[str, PairSplit] = {
            relation.name: split_pairs(relation, shares, seed) for relation in lexicon.relations
        }

    @cached_property
    def _available(self) -> dict[str, list[AmbiguousPrompt]]:
        return {
            part: [
                prompt
                for relation in self.lexicon.relations
                for prompt in prompts(getattr(self.splits[relation.name], part), relation.group, self._wording)
            ]
            for part in PARTS
        }

    @cached_property
    def prompts(self) -> dict[str, list[AmbiguousPrompt]]:
        """The sampled prompts of each part."""
        return {
            part: self._haystack.hide(
                sample(self._available[part], size, self._seed), self._pairs(part), self._seed, part == "train"
            )
            for part, size in zip(PARTS, self._sizes, strict=True)
        }

    def _pairs(self, part: str) -> dict[str, Sequence[WordPair]]:
        """The pairs of a part by group."""
        pairs: dict[str, list[WordPair]] = {}
        for relation in self.lexicon.relations:
            pairs.setdefault(relation.group, []).extend(getattr(self.splits[relation.name], part))
        return dict(pairs)

    def describe(self) -> dict[str, int | float | str]:
        """Sizes and leak counts; ``leak_pairs`` and ``leak_prompts`` compare everything available, not a sample."""
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
