"""Training rows from summaries and articles. A row has one slice of an article, by default a new one in each epoch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nextword.conditioning.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.experiments.tasks.pair_task import PairSamples
from nextword.experiments.tasks.task import Data
from nextword.experiments.tasks.window_likelihood import block_rows
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.text_tokens import expect_offsets, start_id, token_ids
from nextword.results.records import MetricValue
from nextword.runtime.corpora import PARTS, open_corpus
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.pretrained import MINILM, encoder_location, encoder_named, load_tokenizer

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from nextword.experiments.tasks.expand import ExpandConfig
    from nextword.model.modeling import NextWordModel


class SummaryArticles(Data):
    """Pairs of a summary (the source) and an article."""

    def __init__(self, pairs: PairSamples, config: ExpandConfig) -> None:
        self.pairs, self._config = pairs, config
        self._start_texts = [(path, "".join(open_corpus(path, "task.start.data"))) for path in config.start.data]

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksum, and the number of test articles and summaries that are in the training data."""
        described = self.pairs.describe()
        if self._start_texts:
            texts, tested = [text for _, text in self._start_texts], self.pairs.test
            described |= {
                "start_source": ", ".join(Path(path).name for path, _ in self._start_texts),
                "start_bytes": sum(len(text.encode()) for text in texts),
                "start_leak_articles": sum(any(pair.target in text for text in texts) for pair in tested),
            }
        return described

    def whole_text(self) -> str:
        """All training text."""
        return "\n".join([*(text for _, text in self._start_texts), *(pair.text for pair in self.pairs.train)])

    def encoder(self) -> str | None:
        """Name of the encoder in the settings, or the encoder that is available as a package.

        Raises:
            ValueError: If no encoder is named and the package is not installed.
        """
        return self._encoder or encoder_location(MINILM, "task.encoder")

    @cached_property
    def _encoder(self) -> str | None:
        return encoder_named(self._config.encoder or MINILM)

    def prompts(self, tokenizer: PreTrainedTokenizerBase) -> SummaryPrompts:
        """Object that shortens summaries to prompts, and articles to their beginnings."""
        return SummaryPrompts(tokenizer, self._config.length, self._config.prompt_tokens)

    def inputs(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> SummaryInputs:
        """Object that makes the conditioner's inputs from the summaries of prompts."""
        return SummaryInputs(model, self._auxiliary(tokenizer))

    def _auxiliary(self, tokenizer: PreTrainedTokenizerBase) -> AuxiliaryTokenizer | None:
        if self._encoder is None:
            return None
        return AuxiliaryTokenizer(load_tokenizer(self._encoder, "task.encoder"), tokenizer)

    def training(self, tokenizer: PreTrainedTokenizerBase) -> SameSlices:
        """Training rows: one slice per article, with its summary as tokens of the encoder and of the model.

        Each epoch has different slices unless the task has ``same_slices``.
        """
        prompts = self.prompts(tokenizer)
        articles, used = self._articles(self.pairs.train, prompts, "training")
        summaries = [self.pairs.train[number].source for number in used]
        kind = SameSlices if self._config.same_slices else Slices
        return kind(
            articles, used, prompts(summaries), prompts.length, self._config.seed, self._config.prompted_share,
            self._columns(summaries, tokenizer),
        )  # fmt: skip

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Validation rows: the beginning of each article after a start token, which is how test articles are scored."""
        from datasets import Dataset

        prompts = self.prompts(tokenizer)
        beginnings = prompts.beginnings(self.pairs.validation, "validation")
        rows = [[prompts.start, *one.ids] for one in beginnings]
        columns = self._columns([one.summary for one in beginnings], tokenizer)
        return Dataset.from_dict({"input_ids": rows, "labels": rows, **columns})

    def start_rows(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Dataset:
        """Rows to train the small initial model: blocks of articles, some after their summary, and additional texts."""
        prompts, chance = self.prompts(tokenizer), random.Random(seed)
        articles, used = self._articles(self.pairs.train, prompts, "training")
        stream: list[int] = []
        summaries = prompts([self.pairs.train[number].source for number in used])
        for number, summary in zip(used, summaries, strict=True):
            prompted = chance.random() < self._config.start.prompted_share
            body = articles.slice(number, 1, articles.tokens(number))
            stream += [prompts.start, *(summary if prompted else []), *body]
        for _, text in self._start_texts:
            stream += [prompts.start, *token_ids(tokenizer, text)]
        return block_rows(stream, self._config.start.block, "the text of the start", "task.start.block")

    def too_short(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """For each split, the number of articles that are too short. ValueError if all articles of a split are."""
        prompts, counts = self.prompts(tokenizer), {}
        for part in PARTS:
            pairs: list[Pair] = getattr(self.pairs, part)
            _, used = self._articles(pairs, prompts, part)
            unit = f"{part} articles with fewer than {prompts.length} tokens, which are left out"
            counts[f"{part}_too_short"] = MetricValue(value=len(pairs) - len(used), unit=unit, n=len(pairs))
        return counts

    def expect_long_articles(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise ValueError if all training articles have fewer than ``task.length`` tokens."""
        self._articles(self.pairs.train, self.prompts(tokenizer), "training")

    def _columns(self, summaries: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[list[int]]]:
        auxiliary = self._auxiliary(tokenizer)
        return {} if auxiliary is None else auxiliary.rows(summaries)

    def _articles(self, pairs: Sequence[Pair], prompts: SummaryPrompts, part: str) -> tuple[Articles, list[int]]:
        # also returns the indices of the articles that are long enough
        articles = Articles.of(prompts.tokenizer, [pair.target for pair in pairs], prompts.start)
        used = [number for number in range(len(articles)) if articles.tokens(number) >= prompts.length]
        expect_some(used, len(articles), part, prompts.length)
        return articles, used


# -- Articles as tokens, and a slice of each article.

AT_ONCE = 1000
"""Number of articles that are tokenized together."""


@dataclass(frozen=True)
class Articles:
    """Articles as one concatenated row of tokens, with a start token before each.

    ``begins`` has the position of each article's start token, and the end of the last article.
    """

    ids: Int[np.ndarray, "N"]
    begins: Int[np.ndarray, "S"]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], start: int) -> Articles:
        """Tokenize ``texts``, each as a whole, with the token ``start`` before each."""
        parts: list[Int[np.ndarray, "T"]] = []
        for begin in range(0, len(texts), AT_ONCE):
            encoded: Any = tokenizer(list(texts[begin : begin + AT_ONCE]), add_special_tokens=False, verbose=False)
            # 32-bit numbers in an array, because lists of hundreds of millions of tokens need too much memory
            parts += [np.array([start, *ids], dtype=np.int32) for ids in encoded["input_ids"]]
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32), ends)

    def __len__(self) -> int:
        return len(self.begins) - 1

    def tokens(self, number: int) -> int:
        """Number of tokens of the article with index ``number``, without its start token."""
        return int(self.begins[number + 1] - self.begins[number]) - 1

    def slice(self, number: int, position: int, length: int) -> list[int]:
        """``length`` tokens of the article with index ``number``, from ``position``. Position 0 is the start token."""
        begin = int(self.begins[number]) + position
        tokens: list[int] = self.ids[begin : begin + length].tolist()
        return tokens


class SameSlices:
    """A data set of training rows: one slice per article.

    A row has ``length`` tokens to predict and the token before them. At the beginning of an article this is the start
    token. The slice's position in the article depends only on ``seed``, the epoch (always 0 here) and the article's
    index. So a resumed training and all methods have the same rows.

    Args:
        articles: All articles.
        used: Indices of the articles to use, each with at least ``length`` tokens.
        prompts: Prompt tokens of each used article, placed between the start token and the slice.
        length: Tokens per slice.
        seed: Seed of the positions and of the choice of prompted rows.
        prompted_share: Share of the rows that begin with their prompt. Tokens of a prompt are not predicted.
        columns: Additional columns, with one value per used article.
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
        """``input_ids``, ``labels`` and the additional columns."""
        return ["input_ids", "labels", *self.columns]

    def __len__(self) -> int:
        return len(self.used)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")  # ends a for loop over the rows
        chance = random.Random(f"{self.seed}/{self.epoch}/{index}")
        article = self.used[index]
        position = chance.randrange(self.articles.tokens(article) - self.length + 1)
        ids = self.articles.slice(article, position, self.length + 1)
        labels = list(ids)
        if self.prompted_share and chance.random() < self.prompted_share:
            before = [*self.articles.slice(article, 0, 1), *self.prompts[index]]
            ids, labels = [*before, *ids[1:]], [IGNORED_LABEL] * len(before) + ids[1:]
        return {"input_ids": ids, "labels": labels, **{name: list(rows[index]) for name, rows in self.columns.items()}}


class Slices(SameSlices):
    """Training rows like ``SameSlices``, but with another slice of each article in every epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that begins."""
        self.epoch = int(epoch)


# -- Summaries and articles as tokens: the tokens before a text, and the beginning of the human article.


@dataclass(frozen=True)
class Beginning:
    """A summary and the first tokens of its article. Only the tokens of the article are scored."""

    number: int
    """Index among the articles that are long enough."""
    summary: str
    prompt: list[int]
    """The summary as token ids, truncated, with a newline."""
    ids: list[int]
    text_bytes: int
    """Number of UTF-8 bytes of the text that ``ids`` encode."""
    article: str


class SummaryPrompts:
    """Shortens summaries to prompts (at most ``longest`` tokens), and articles to their first ``length`` tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, length: int, longest: int) -> None:
        self.tokenizer, self.length, self.longest = tokenizer, length, longest
        self.start = start_id(tokenizer)

    @cached_property
    def line_end(self) -> list[int]:
        """Token ids of the newline between a summary and the text; empty if the tokenizer has no newline."""
        ids: list[int] = self.tokenizer("\n", add_special_tokens=False)["input_ids"]
        return ids

    @property
    def positions(self) -> int:
        """Number of positions that a start token, the longest prompt and a text take together."""
        return 1 + self.longest + len(self.line_end) + self.length

    def __call__(self, summaries: Sequence[str]) -> list[list[int]]:
        """Each summary as token ids: its first ``longest`` tokens and a newline."""
        if not summaries:
            return []
        encoded: Any = self.tokenizer(list(summaries), add_special_tokens=False, verbose=False)
        return [[*ids[: self.longest], *self.line_end] for ids in encoded["input_ids"]]

    def beginnings(self, pairs: Sequence[Pair], part: str) -> list[Beginning]:
        """Beginnings of the articles with at least ``length`` tokens. ``part`` is the split's name in error messages.

        Raises:
            ValueError: If no article is long enough, or the tokenizer gives no character offsets.
        """
        expect_offsets(self.tokenizer)
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
        """One prompt per beginning: a start token, then the summary if ``prompted``. The beginning is the target."""
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
    """Raise ValueError if ``articles`` is empty, because all ``count`` articles are shorter than ``length`` tokens."""
    if not articles:
        raise ValueError(
            f"all {count} {part} articles are shorter than task.length ({length} tokens). Give longer articles or a "
            f"smaller task.length."
        )


# -- The inputs of a conditioned model, from a summary.


class SummaryInputs:
    """Makes the conditioner's inputs from summaries. A model without a conditioner gets no inputs.

    Each summary is encoded once, and its states are kept. ``auxiliary`` makes inputs from summaries; None: there is no
    encoder, and the model must not have a conditioner.
    """

    def __init__(self, model: NextWordModel, auxiliary: AuxiliaryTokenizer | None) -> None:
        if model.conditioner is not None and auxiliary is None:
            raise ValueError("task.encoder: must be given for a model with a conditioner (none given)")
        self.model, self.auxiliary = model, auxiliary
        self._states: dict[str, Tensor] = {}

    def __call__(self, prompts: Sequence[Prompt]) -> dict[str, Tensor]:
        """Keyword arguments of ``distribution`` and ``generate`` for the summaries of ``prompts``."""
        if self.model.conditioner is None or self.auxiliary is None:
            return {}
        summaries = [str(prompt.source) for prompt in prompts]
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
