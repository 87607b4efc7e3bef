"""Summaries and articles in tokens: what a model reads before a text, and how the article begins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nextword.conditioning.parts.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.corpora.gaps import Pair
from nextword.decoding.continuations import Prompt
from nextword.scoring.ask import start_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SHUFFLES = 1000
"""How often summaries are dealt out before it is given up to give nobody its own."""


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
        found: list[Beginning] = []
        for pair, prompt, ids, offsets in zip(
            pairs, self([pair.source for pair in pairs]), encoded["input_ids"], encoded["offset_mapping"], strict=True
        ):
            if len(ids) >= self.length:
                covered = pair.target[: max(end for _, end in offsets[: self.length])]
                size = len(covered.encode())
                found.append(Beginning(len(found), pair.source, prompt, ids[: self.length], size, pair.target))
        expect_some(found, len(pairs), part, self.length)
        return found

    def before(self, given: Sequence[Beginning], prompted: bool) -> list[Prompt]:
        """What a model reads before each of the texts, with the beginning as what people wrote there."""
        return [
            Prompt(one.number, [self.start, *(one.prompt if prompted else [])], one.ids, one.text_bytes)
            for one in given
        ]


def expect_some(found: Sequence[Any], count: int, part: str, length: int) -> None:
    """Raises ValueError where all of ``count`` articles are too short."""
    if not found:
        raise ValueError(
            f"all {count} {part} articles are shorter than task.length ({length} tokens). Give longer articles or a "
            f"smaller task.length."
        )


class Guide:
    """What a model is told of the summaries besides its prompt; nothing, where it has no conditioner.

    Each summary is read by the encoder once, however often it is asked for.

    Args:
        model: An attached model.
        auxiliary: Makes inputs of summaries; None: there is no encoder, so the model must have no conditioner.
    """

    def __init__(self, model: Any, auxiliary: AuxiliaryTokenizer | None) -> None:
        if model.conditioner is not None and auxiliary is None:
            raise ValueError("task.encoder: a conditioned model reads summaries with an encoder, and there is none")
        self.model, self.auxiliary = model, auxiliary
        self._states: dict[str, Tensor] = {}

    def __call__(self, given: Sequence[Beginning]) -> dict[str, Tensor]:
        """Arguments of ``distribution`` and ``generate`` for these summaries."""
        if self.model.conditioner is None or self.auxiliary is None:
            return {}
        summaries = [one.summary for one in given]
        inputs = {name: tensor.to(self.model.device) for name, tensor in self.auxiliary(summaries).items()}
        ids, mask = inputs.pop("aux_input_ids"), inputs.pop("aux_attention_mask")
        new = [row for row, summary in enumerate(summaries) if summary not in self._states]
        if new:
            states = self.model.encode(ids[new], mask[new])
            for row, encoded, count in zip(new, states, mask[new].sum(dim=1).tolist(), strict=True):
                self._states[summaries[row]] = encoded[:count]
        encoded = pad_sequence([self._states[summary] for summary in summaries], batch_first=True)
        copied = inputs if self.model.next_word_head.reads_source else {}
        return {"aux_states": encoded, "aux_attention_mask": mask, **copied}


def with_other_summaries(given: Sequence[Beginning], seed: int) -> list[Beginning]:
    """The same articles, each with the summary and the prompt of another article; no summary is used twice.

    Args:
        given: At least two.
        seed: Of the choice.

    Raises:
        ValueError: No such choice was found, because too many pairs share an article or a summary.
    """
    chance = random.Random(seed)
    order = list(range(len(given)))
    for _ in range(SHUFFLES):
        chance.shuffle(order)
        # each takes over from the next in a circle, so nobody keeps its own
        others = {one: given[other] for one, other in zip(order, [*order[1:], order[0]], strict=True)}
        if all(_differ(given[one], other) for one, other in others.items()):
            return [
                replace(one, summary=others[place].summary, prompt=others[place].prompt)
                for place, one in enumerate(given)
            ]
    raise ValueError(
        f"steering: the {len(given)} test articles cannot get another article's summary each, because too many share "
        f"an article or a summary. Give more test pairs (task.test_share, task.test_pairs)."
    )


def _differ(one: Beginning, other: Beginning) -> bool:
    return one.summary != other.summary and one.article != other.article
