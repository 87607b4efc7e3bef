"""Articles in tokens, and of each article another slice in every epoch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from nextword.functional.padding import IGNORED_LABEL

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

AT_ONCE = 1000
"""Articles that are encoded together."""


@dataclass(frozen=True)
class Articles:
    """Articles as one row of tokens; a start token stands before each of them.

    Attributes:
        ids: All tokens, N of them.
        begins: Where each of the articles begins, at its start token, and after the last one where it ends.
    """

    ids: Int[np.ndarray, "N"]
    begins: Int[np.ndarray, "S"]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], start: int) -> Articles:
        """The tokens of texts, each encoded as a whole."""
        parts: list[Int[np.ndarray, "T"]] = []
        for begin in range(0, len(texts), AT_ONCE):
            encoded: Any = tokenizer(list(texts[begin : begin + AT_ONCE]), add_special_tokens=False, verbose=False)
            # 32 bits, since some hundred million tokens are as many objects otherwise
            parts += [np.array([start, *ids], dtype=np.int32) for ids in encoded["input_ids"]]
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32), ends)

    def __len__(self) -> int:
        return len(self.begins) - 1

    def tokens(self, number: int) -> int:
        """How many tokens an article has, its start token left out."""
        return int(self.begins[number + 1] - self.begins[number]) - 1

    def slice(self, number: int, place: int, length: int) -> list[int]:
        """``length`` tokens of an article from ``place`` on; at 0 stands the start token."""
        begin = int(self.begins[number]) + place
        tokens: list[int] = self.ids[begin : begin + length].tolist()
        return tokens


class Slices:
    """Training rows of articles, as a data set by number: in every epoch another slice of each article.

    A row has ``length`` tokens to be predicted, and before them the one that stands there in the article: the start
    token where the slice is the article's beginning. Where it begins depends on ``seed``, the epoch and the article's
    number only, so that a training that is taken up again, and all methods, see the same rows.

    Args:
        articles: The articles.
        used: Numbers of the articles to take, each with at least ``length`` tokens.
        prompts: For each of those, tokens that a prompted row has between the start token and its slice.
        length: Tokens of a slice.
        seed: Of the places, and of which rows are prompted.
        prompted_share: Share of the rows that begin with the start token and their prompt, none of which is predicted.
        columns: Further columns: for each of the used articles what stands in it.
    """

    def __init__(
        self,
        articles: Articles,
        used: Sequence[int],
        prompts: Sequence[Sequence[int]],
        length: int,
        seed: int,
        prompted_share: float = 0.0,
        columns: Mapping[str, Sequence[Sequence[int]]] | None = None,
    ) -> None:
        self.articles, self.used, self.prompts = articles, used, prompts
        self.length, self.seed, self.prompted_share = length, seed, prompted_share
        self.columns = dict(columns or {})
        self.epoch = 0

    @property
    def column_names(self) -> list[str]:
        """``input_ids``, ``labels`` and the further columns."""
        return ["input_ids", "labels", *self.columns]

    def set_epoch(self, epoch: int) -> None:
        """Says which pass over the data begins."""
        self.epoch = int(epoch)

    def __len__(self) -> int:
        return len(self.used)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")  # what ends a for loop over the rows
        chance = random.Random(f"{self.seed}/{self.epoch}/{index}")
        article = self.used[index]
        place = chance.randrange(self.articles.tokens(article) - self.length + 1)
        ids = self.articles.slice(article, place, self.length + 1)
        labels = list(ids)
        if self.prompted_share and chance.random() < self.prompted_share:
            before = [*self.articles.slice(article, 0, 1), *self.prompts[index]]
            ids, labels = [*before, *ids[1:]], [IGNORED_LABEL] * len(before) + ids[1:]
        return {"input_ids": ids, "labels": labels, **{name: list(rows[index]) for name, rows in self.columns.items()}}
