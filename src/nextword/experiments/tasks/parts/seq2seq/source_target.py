"""Pairs as token ids, cut to a length, with the text that the ids stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nextword.inference.scoring.target_likelihood import TokenPair
from nextword.runtime.corpora.gap_sentences import MASK, Pair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SENTINEL = "<extra_id_0>"
"""What T5 has in place of a mask token."""


@dataclass(frozen=True)
class EncodedText:
    """Ids with the special tokens around them, the text they stand for, and where in it each id's text begins.

    Attributes:
        ids: All tokens.
        text: The text as far as tokens cover it.
        starts: For each id the place in ``text`` where it begins; -1 at a special token.
    """

    ids: list[int]
    text: str
    starts: list[int]


@dataclass(frozen=True)
class EncodedPair:
    """Both sides of a pair."""

    source: EncodedText
    target: EncodedText

    @property
    def tokens(self) -> TokenPair:
        """What a model reads, and what it is asked for, the end of the sequence included."""
        return TokenPair(self.source.ids, self.target.ids, len(self.target.text.encode()))


@dataclass(frozen=True)
class Frame:
    """The special tokens that stand around every text; the last of them is always the end-of-sequence token."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> Frame:
        """What the tokenizer itself puts around a text, and the end of the sequence where it puts none."""
        encoded = tokenizer("a", return_special_tokens_mask=True)
        special = encoded["special_tokens_mask"]
        first, last = special.index(0), len(special) - special[::-1].index(0)
        before, after = encoded["input_ids"][:first], encoded["input_ids"][last:]
        end = tokenizer.eos_token_id
        return cls(tuple(before), (*after, *([] if after[-1:] == [end] else [end])))


class PairEncoder:
    """Turns pairs into ids.

    Args:
        tokenizer: The model's.
        longest_source: Tokens of a source at most, special ones counted; what is beyond is cut off at the end.
        longest_target: Tokens of a target at most.
        prefix: Text before every source.
        mask: Text for the gap of a source; None: the tokenizer's mask token.

    Raises:
        ValueError: The tokenizer has no end-of-sequence token, or cannot say which characters a token covers.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        longest_source: int,
        longest_target: int,
        prefix: str = "",
        mask: str | None = None,
    ) -> None:
        name = f"tokenizer '{tokenizer.name_or_path}'"
        if not tokenizer.is_fast:
            raise ValueError(
                f"{name} has no offsets (it is a slow one), so bytes cannot be counted. Use its fast version."
            )
        if tokenizer.eos_token_id is None:
            raise ValueError(f"{name} has no end-of-sequence token, so a model could not end what it writes; set one")
        self.tokenizer = tokenizer
        self.longest = longest_source, longest_target
        self.prefix = prefix
        self.mask = mask or tokenizer.mask_token or (SENTINEL if SENTINEL in tokenizer.get_vocab() else None)
        self.frame = Frame.of(tokenizer)

    @property
    def pad(self) -> int:
        """Token that fills; without effect, because masks leave it out."""
        pad = self.tokenizer.pad_token_id
        return int(pad if pad is not None else self.tokenizer.eos_token_id)

    def __call__(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Both sides of each pair.

        Raises:
            ValueError: A source has a gap, and there is no mask.
        """
        sources = [self.prefix + self._with_mask(pair.source) for pair in pairs]
        encoded = zip(
            self._encode(sources, self.longest[0]),
            self._encode([pair.target for pair in pairs], self.longest[1]),
            strict=True,
        )
        return [EncodedPair(source, target) for source, target in encoded]

    def visible_text(self, source: EncodedText) -> str:
        """A source's own text as far as a model sees it, without prefix and mask."""
        text = source.text.removeprefix(self.prefix)
        return text.replace(self.mask, " ") if self.mask else text

    def _with_mask(self, source: str) -> str:
        if MASK not in source:
            return source
        if self.mask is None:
            raise ValueError(
                f"task.mask: tokenizer '{self.tokenizer.name_or_path}' has no mask token; give the text that is to "
                f"stand in place of the sentence taken out, for instance task.mask='...'"
            )
        return source.replace(MASK, self.mask)

    def _encode(self, texts: list[str], longest: int) -> list[EncodedText]:
        room = longest - len(self.frame.before) - len(self.frame.after)
        if not texts:
            return []
        encoded: Any = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
        return [
            self._framed(text, ids, offsets, room)
            for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        ]

    def _framed(self, text: str, ids: list[int], offsets: list[tuple[int, int]], room: int) -> EncodedText:
        # What a tokenizer drops at the end counts as covered: it was not cut off.
        covered = text if len(ids) <= room else text[: max((end for _, end in offsets[:room]), default=0)]
        before, after = self.frame.before, self.frame.after
        starts = [-1] * len(before) + [begin for begin, _ in offsets[:room]] + [-1] * len(after)
        return EncodedText([*before, *ids[:room], *after], covered, starts)
