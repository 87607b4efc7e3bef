"""Summaries and articles as training rows: of each article a slice, another one in every epoch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.conditioning.parts.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.experiments.tasks.parts.blocks import block_rows
from nextword.experiments.tasks.parts.expand.article_slices import Articles, Slices
from nextword.experiments.tasks.parts.expand.summary_inputs import SummaryInputs
from nextword.experiments.tasks.parts.expand.summary_prompts import SummaryPrompts, expect_some
from nextword.experiments.tasks.parts.pair_samples import PairSamples
from nextword.experiments.tasks.task import Data
from nextword.inference.scoring.text_tokens import token_ids
from nextword.results.records import MetricValue
from nextword.runtime.corpora import PARTS
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.pretrained import MINILM, encoder_location, encoder_named, load_tokenizer

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class SummaryArticles(Data):
    """Pairs of a summary and an article.

    Args:
        pairs: Summaries are sources, articles targets.
        encoder: Name of the encoder that reads the summaries; ``None``: the one that comes as a package.
        length: Tokens of a slice, and of the beginning of an article.
        prompt_tokens: Tokens of a summary as prompt at most.
        prompted_share: Share of the training rows that begin with their summary.
        start_texts: Further texts that the start alone is trained on, each after its path.
    """

    def __init__(
        self,
        pairs: PairSamples,
        encoder: str | None,
        length: int,
        prompt_tokens: int,
        prompted_share: float,
        start_texts: Sequence[tuple[str, str]],
    ) -> None:
        self.pairs, self._named_encoder, self._start_texts = pairs, encoder, start_texts
        self._length, self._prompt_tokens, self._prompted_share = length, prompt_tokens, prompted_share

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksum, and how many test articles or summaries the training has too."""
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
        """Everything that models are trained on."""
        return "\n".join([*(text for _, text in self._start_texts), *(pair.text for pair in self.pairs.train)])

    def encoder(self) -> str | None:
        """The encoder that was named, or the one that comes as a package.

        Raises:
            ValueError: None was named, and that package is not installed.
        """
        return self._encoder or encoder_location(MINILM, "task.encoder")

    @cached_property
    def _encoder(self) -> str | None:
        return encoder_named(self._named_encoder or MINILM)

    def prompts(self, tokenizer: PreTrainedTokenizerBase) -> SummaryPrompts:
        """Makes prompts of summaries, and beginnings of articles."""
        return SummaryPrompts(tokenizer, self._length, self._prompt_tokens)

    def inputs(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> SummaryInputs:
        """What a conditioned model reads of the summaries of some prompts."""
        return SummaryInputs(model, self._auxiliary(tokenizer))

    def _auxiliary(self, tokenizer: PreTrainedTokenizerBase) -> AuxiliaryTokenizer | None:
        if self._encoder is None:
            return None
        return AuxiliaryTokenizer(load_tokenizer(self._encoder, "task.encoder"), tokenizer)

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Slices:
        """A slice of each article, another one in each epoch; summaries in tokens of the encoder and of the model."""
        prompts = self.prompts(tokenizer)
        articles, used = self._articles(self.pairs.train, prompts, "training")
        summaries = [self.pairs.train[number].source for number in used]
        return Slices(
            articles, used, prompts(summaries), prompts.length, self.pairs.reading.seed, self._prompted_share,
            self._columns(summaries, tokenizer),
        )  # fmt: skip

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The beginning of each validation article after a start token, as test articles are scored."""
        from datasets import Dataset

        prompts = self.prompts(tokenizer)
        beginnings = prompts.beginnings(self.pairs.validation, "validation")
        rows = [[prompts.start, *one.ids] for one in beginnings]
        columns = self._columns([one.summary for one in beginnings], tokenizer)
        return Dataset.from_dict({"input_ids": rows, "labels": rows, **columns})

    def start_rows(self, tokenizer: PreTrainedTokenizerBase, seed: int, block: int, prompted_share: float) -> Dataset:
        """Blocks of the training articles, some after their summary, and of the further texts.

        Args:
            tokenizer: The start's.
            seed: Of which articles stand after their summary.
            block: Tokens of a row.
            prompted_share: Share of those articles.
        """
        prompts, chance = self.prompts(tokenizer), random.Random(seed)
        articles, used = self._articles(self.pairs.train, prompts, "training")
        stream: list[int] = []
        summaries = prompts([self.pairs.train[number].source for number in used])
        for number, summary in zip(used, summaries, strict=True):
            prompted = chance.random() < prompted_share
            body = articles.slice(number, 1, articles.tokens(number))
            stream += [prompts.start, *(summary if prompted else []), *body]
        for _, text in self._start_texts:
            stream += [prompts.start, *token_ids(tokenizer, text)]
        return block_rows(stream, block, "the text of the start", "task.start.block")

    def too_short(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """How many articles are too short, which depends on the tokenizer.

        Raises:
            ValueError: All of a part are.
        """
        prompts, counts = self.prompts(tokenizer), {}
        for part in PARTS:
            pairs: list[Pair] = getattr(self.pairs, part)
            _, used = self._articles(pairs, prompts, part)
            unit = f"{part} articles of fewer than {prompts.length} tokens, left out"
            counts[f"{part}_too_short"] = MetricValue(value=len(pairs) - len(used), unit=unit, n=len(pairs))
        return counts

    def expect_long_articles(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raises ValueError where all training articles are too short."""
        self._articles(self.pairs.train, self.prompts(tokenizer), "training")

    def _columns(self, summaries: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[list[int]]]:
        """Summaries as columns of a data set; none where there is no encoder."""
        auxiliary = self._auxiliary(tokenizer)
        return {} if auxiliary is None else auxiliary.rows(summaries)

    def _articles(self, pairs: Sequence[Pair], prompts: SummaryPrompts, part: str) -> tuple[Articles, list[int]]:
        """The articles in tokens, and the numbers of those that are long enough."""
        articles = Articles.of(prompts.tokenizer, [pair.target for pair in pairs], prompts.start)
        used = [number for number in range(len(articles)) if articles.tokens(number) >= prompts.length]
        expect_some(used, len(articles), part, prompts.length)
        return articles, used
