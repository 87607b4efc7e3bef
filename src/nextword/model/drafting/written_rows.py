"""The texts of a batch while they are written, each with its own number of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from nextword.model.drafting.drafter import KnownText


class WrittenRows:
    """The texts as ``generate`` returns them, and as plain numbers for who guesses.

    Args:
        prompts: What is there (B, T), padding included.
        padding: Places of padding before each text.
        sources: What the head reads beside each text; None: nothing.
        longest: Most places of a text.
        pad: Stands behind finished texts.
    """

    def __init__(
        self, prompts: Int[Tensor, "B T"], padding: Sequence[int], sources: Tensor | None, longest: int, pad: int
    ) -> None:
        self.prompts = prompts
        self._begin = prompts.shape[1]
        self._ids = prompts.new_full((len(prompts), max(longest, self._begin + 1)), pad)
        self._ids[:, : self._begin] = prompts
        self._ends = [self._begin] * len(prompts)
        self._longest = longest
        beside = [[]] * len(prompts) if sources is None else sources.tolist()
        self.texts = [
            KnownText(words[before:], source)
            for words, before, source in zip(prompts.tolist(), padding, beside, strict=True)
        ]
        self.finished = [False] * len(prompts)

    @property
    def unfinished(self) -> list[int]:
        """The rows that go on."""
        return [row for row, done in enumerate(self.finished) if not done]

    @property
    def written(self) -> list[int]:
        """New words of each row."""
        return [end - self._begin for end in self._ends]

    @property
    def room(self) -> int:
        """Words that fit behind every unfinished row."""
        return self._longest - max(self._ends[row] for row in self.unfinished)

    @property
    def last(self) -> Int[Tensor, "B 1"]:
        """The last word of each row."""
        return self._ids[torch.arange(len(self._ids)), torch.tensor(self._ends) - 1][:, None]

    def context(self, row: int) -> Int[Tensor, "1 T"]:
        """What is there of a row."""
        return self._ids[row : row + 1, : self._ends[row]]

    def add(self, row: int, word: int, stops: Any) -> None:
        """Writes a word, and notes whether the text ends with it."""
        self._ids[row, self._ends[row]] = word
        self._ends[row] += 1
        self.texts[row].words.append(word)
        self.finished[row] = bool(stops(self.context(row), None).all())

    def sequences(self) -> Int[Tensor, "B longest"]:
        """All rows, padding behind those that ended earlier."""
        return self._ids[:, : max(self._ends)].clone()
