"""Summaries and articles in tokens: what a model reads before a text, and how people's article begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.prompt_encoding import start_id
from nextword.runtime.corpora.gap_sentences import Pair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Beginning:
    """A summary and the first tokens of its article, all of which are scored.

    Attributes:
        number: Its place among the articles that are long enough.
        summary: The summary.
        prompt: The summary in tokens of the model, cut to a length, and a line end.
        ids: The first tokens of the article.
        text_bytes: UTF-8 bytes of the text that they cover.
        article: The whole article.
    """

    number: int
    summary: str
    prompt: list[int]
    ids: list[int]
    text_bytes: int
    article: str


class SummaryPrompts:
    """Makes prompts of summaries, and beginnings of articles.

    Args:
        tokenizer: The model's.
        length: Tokens of a beginning.
        longest: Tokens of a summary at most.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, length: int, longest: int) -> None:
        self.tokenizer, self.length, self.longest = tokenizer, length, longest
        self.start = start_id(tokenizer)

    @cached_property
    def line_end(self) -> list[int]:
        """What stands between a summary and the text; nothing where the tokenizer has no line ends."""
        ids: list[int] = self.tokenizer("\n", add_special_tokens=False)["input_ids"]
        return ids

    @property
    def positions(self) -> int:
        """Places that a start token, the longest prompt and a text take up."""
        return 1 + self.longest + len(self.line_end) + self.length

    def __call__(self, summaries: Sequence[str]) -> list[list[int]]:
        """Each summary in tokens, cut off at the end, with a line end."""
        if not summaries:
            return []
        encoded: Any = self.tokenizer(list(summaries), add_special_tokens=False, verbose=False)
        return [[*ids[: self.longest], *self.line_end] for ids in encoded["input_ids"]]

    def beginnings(self, pairs: Sequence[Pair], part: str) -> list[Beginning]:
        """Those of the articles that have at least ``length`` tokens.

        Args:
            pairs: Summaries and articles.
            part: What they are for, for the message.

        Raises:
            ValueError: There is none, or the tokenizer cannot say which characters a token covers.
        """
        if not self.tokenizer.is_fast:
            raise ValueError(
                f"tokenizer '{self.tokenizer.name_or_path}' has no offsets (it is a slow one), so bytes cannot be "
                f"counted. Use its fast version."
            )
        articles = [pair.target for pair in pairs]
        encoded: Any = self.tokenizer(articles, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        long_enough: list[Beginning] = []
        for pair, prompt, ids, offsets in zip(
            pairs, self([pair.source for pair in pairs]), encoded["input_ids"], encoded["offset_mapping"], strict=True
        ):
            if len(ids) >= self.length:
                covered = pair.target[: max(end for _, end in offsets[: self.length])]
                size = len(covered.encode())
                number, first = len(long_enough), ids[: self.length]
                long_enough.append(Beginning(number, pair.source, prompt, first, size, pair.target))
        expect_some(long_enough, len(pairs), part, self.length)
        return long_enough

    def before(self, beginnings: Sequence[Beginning], prompted: bool) -> list[Prompt]:
        """What a model reads before each of the texts: a start token, with the summary after it or alone."""
        return [
            Prompt(
                context=[self.start, *(one.prompt if prompted else [])],
                target=one.ids,
                target_bytes=one.text_bytes,
                number=one.number,
                start=1,
                source=one.summary,
            )
            for one in beginnings
        ]


def expect_some(articles: Sequence[Any], count: int, part: str, length: int) -> None:
    """Raises ValueError where all of ``count`` articles are too short."""
    if not articles:
        raise ValueError(
            f"all {count} {part} articles are shorter than task.length ({length} tokens). Give longer articles or a "
            f"smaller task.length."
        )
