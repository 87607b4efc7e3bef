"""Expansion of a summary into an article: source and target of a summarisation data set are exchanged.

Each line of the data is a JSON object with one pair:

    {"highlights": "Bishop of Fargo is in a hospital .", "article": "Bishop John Folda , of North Dakota , is taking
     time off after being diagnosed with Hepatitis A . ..."}

A model reads the summary as a prompt or through an encoder, and generates the article after a start token.

Source: He, Chen and Kim, "Generative Pre-Training Language Models with Auxiliary Conditional Summaries" (report of
Stanford's CS224N), sections 4.1 to 4.3.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.metrics.statistics import bootstrap_ratio
from nextword.experiments.tasks.expand_rows import Beginning, SummaryArticles, SummaryPrompts
from nextword.experiments.tasks.pair_task import PairSamples
from nextword.experiments.tasks.prompted_texts import PromptedTexts
from nextword.experiments.tasks.small_start import Gpt2StartConfig, SmallStart
from nextword.experiments.tasks.task import Measures, Task, registry
from nextword.experiments.tasks.tokenizers import named_or_trained
from nextword.experiments.tasks.window_likelihood import likelihood_values, mean_perplexity, measured_value
from nextword.experiments.tasks.writing import MAY_CHANGE, Texts, WritingConfig
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.calibrate import tuned
from nextword.inference.scoring.likelihood import Inputs, likelihood_sum, target_log_probs
from nextword.inference.scoring.opened_model import Progress, progress_within
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import WITH_PROMPT, Evaluation, MetricValue
from nextword.runtime.corpora.articles import STORIES
from nextword.runtime.corpora.pairs import PairReading, Side
from nextword.settings.config import Seed, Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


# -- The settings of the small initial model and of the texts that methods generate in the task ``expand``.

METRICS: tuple[str | dict[str, Any], ...] = ("likelihood:mean", "rouge:1,2,l", "topics")
"""Columns of table 1 in the report of He, Chen and Kim: perplexity (the mean over articles), ROUGE F1 and topic
divergence."""


class ExpandStartConfig(Gpt2StartConfig):
    """The small initial GPT-2, used if no pretrained model is given, with its training text."""

    data: list[str] = Field(default=[])
    """Training text besides the training articles: text files, or folders whose training split is used."""
    block: int = Field(default=256, ge=2)
    """Tokens per training row."""
    prompted_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the training articles before which their summary is inserted, like a prompt."""


class ExpandGenerationConfig(WritingConfig):
    """Settings of the generation from test summaries, and its metrics."""

    prompts: int = Field(default=100, ge=0)
    """Number of test pairs for which texts are generated, from the first pair; 0: none."""
    batch_size: int = Field(default=32, ge=1)
    """Batch size of the generation."""
    decodings: list[Decoding] = Field(default=[Decoding(top_k=40)], min_length=1)
    """Decodings. Each is used twice: without a prompt, and with the summary as prompt."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the generated texts, as for nextword evaluate. They may be changed after the comparison has
    finished."""

    def texts(self) -> Texts | None:
        """The decodings and metrics of a comparison's texts; ``None`` if no texts are generated."""
        return self.texts_after("", WITH_PROMPT) if self.prompts else None


class ExpandConfig(Settings):
    """Settings of the task; ``data`` is required."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files, or a folder with .story files. In a .story
    file, the highlights are the summary."""
    summary_field: str = "highlights"
    """Field with the summary."""
    article_field: str = "article"
    """Field with the article."""
    split_field: str | None = None
    """Field of a .jsonl file with the split: train, validation or test; none: split by a hash of the article."""
    validation_share: float = Field(default=0.05, gt=0, lt=1)
    """Fraction of the pairs used for validation, if the data has no split."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Fraction of the pairs used for testing, if the data has no split. The remaining pairs are training data."""
    seed: Seed = 0
    """Seed of the split by hash, of the samples and slices, and of the shuffled summaries."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Maximum number of training pairs, sampled at random; none: all."""
    validation_pairs: int | None = Field(default=500, ge=1)
    """Maximum number of validation pairs."""
    test_pairs: int | None = Field(default=1000, ge=2)
    """Maximum number of test pairs."""
    tuning_pairs: int = Field(default=100, ge=1)
    """Number of validation pairs for choosing a cache's temperature and weight."""
    length: int = Field(default=128, ge=2)
    """Number of tokens of a training slice; as many tokens of each test article are scored, and as many are generated.
    Articles with fewer tokens are left out."""
    prompt_tokens: int = Field(default=96, ge=1)
    """Maximum tokens of a summary as prompt. Longer summaries are truncated at the end; the encoder gets the whole
    summary."""
    prompted_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the training rows that begin with their summary as prompt. Each epoch chooses these rows anew, unless
    ``same_slices`` is true."""
    same_slices: bool = False
    """Whether every epoch has the same slice of each article, as stored states need; otherwise each epoch has another
    slice."""
    encoder: str | None = None
    """Folder or hub name of the encoder of the summaries; none or "minilm": all-MiniLM-L6-v2 from its package, if
    installed."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; none: train a byte-level BPE on all training text."""
    vocabulary: int = Field(default=8000, ge=258)
    """Vocabulary size of the trained BPE."""
    cache: str | None = None
    """Folder for trained tokenizers; none: train one in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Batch size of the measurements, in articles."""
    generation: ExpandGenerationConfig = ExpandGenerationConfig()
    """Texts that every method generates."""
    start: ExpandStartConfig = ExpandStartConfig()
    """The small initial model, used if no pretrained model is given."""


@registry.register("expand")
class Expand(Task):
    """Generate articles from summaries: likelihood, and the effect of the summary on it. See docs/tasks/expand.md."""

    name = "expand"
    version = 1
    Config = ExpandConfig
    may_change = MAY_CHANGE
    # for the small model on two CPU cores; recipes have other values
    training_defaults: ClassVar[dict[str, Any]] = {
        "epochs": 10, "batch_size": 16, "learning_rate": 1e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: SummaryArticles

    def __init__(self, config: ExpandConfig) -> None:
        self.config = config
        reading = PairReading(
            source=Side("summary", config.summary_field), target=Side("article", config.article_field),
            split_field=config.split_field, validation_share=config.validation_share, test_share=config.test_share,
            seed=config.seed, other=STORIES, hashed="target",
        )  # fmt: skip
        sizes = config.train_pairs, config.validation_pairs, config.test_pairs
        self.data = SummaryArticles(PairSamples(Path(config.data), reading, sizes), config)
        self.start = ArticleStart(self.data, config)
        self.measures = Steering(self.data, config)
        texts = config.generation.texts()
        if texts is not None:
            size = config.generation.batch_size
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, self.data.inputs)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that a prompt and a text fit the model's positions, and that articles are long enough."""
        prompts = self.data.prompts(tokenizer)
        limit = getattr(model_config, "max_position_embeddings", None)
        if limit is not None and prompts.positions > limit:
            raise ValueError(
                f"a start token, task.prompt_tokens ({self.config.prompt_tokens}), a line end and task.length "
                f"({self.config.length}) must fit the start model's {limit} positions (they are {prompts.positions} "
                f"tokens)"
            )
        self.data.expect_long_articles(tokenizer)
        prompts.beginnings(self.data.pairs.validation, "validation")
        with_other_summaries(prompts.beginnings(self.data.pairs.test, "test"), self.config.seed)

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        prompts = self.data.prompts(tokenizer)
        beginnings = prompts.beginnings(self.data.pairs.test, "test")[: self.config.generation.prompts]
        return {"": prompts.before(beginnings, prompted=False), WITH_PROMPT: prompts.before(beginnings, prompted=True)}


class ArticleStart(SmallStart):
    """A small GPT-2, trained on the training articles and ``task.start.data``, without an encoder."""

    def __init__(self, data: SummaryArticles, config: ExpandConfig) -> None:
        start = config.start
        super().__init__(
            lambda: named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache),
            architecture=lambda tokenizer: start.architecture(
                tokenizer, max(start.block, data.prompts(tokenizer).positions)
            ),
            rows=data.start_rows,
            training=start.training(),
        )
        self._data = data

    def probe(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """For each split, the number of articles with fewer than ``task.length`` tokens of this tokenizer."""
        return self._data.too_short(tokenizer)


class Steering(Measures):
    """Measures the likelihood of the beginnings of test articles: alone, after their summary, after another summary."""

    def __init__(self, data: SummaryArticles, config: ExpandConfig) -> None:
        self._data, self._config = data, config

    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """Measure all test articles that are long enough."""
        scorer = self._scorer(model, tokenizer)
        beginnings = scorer.prompts.beginnings(self._data.pairs.test, "test")
        with inference_mode_of(model):
            return Evaluation(metrics=steering_metrics(scorer, beginnings, self._config.seed, progress))

    def tune(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Choose the temperature and weight of a cache by the likelihood of the first validation articles."""
        scorer = self._scorer(model, tokenizer)
        beginnings = scorer.prompts.beginnings(self._data.pairs.validation, "validation")[: self._config.tuning_pairs]
        return tuned(model, lambda: scorer.nats(beginnings, prompted=False))

    def _scorer(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> SteeringScorer:
        inputs = self._data.inputs(model, tokenizer)
        return SteeringScorer(model, self._data.prompts(tokenizer), inputs, self._config.batch_size)


# -- Likelihood of articles after their summaries, and steering: the loss if another article's summary is given.

SHUFFLES = 1000
"""Maximum number of attempts to assign each article another article's summary."""


@dataclass(frozen=True)
class SteeringScorer:
    """Computes the likelihood of beginnings of articles. ``inputs`` makes the conditioner's inputs."""

    model: NextWordModel
    prompts: SummaryPrompts
    inputs: Inputs
    batch_size: int

    def nats(
        self, beginnings: Sequence[Beginning], prompted: bool, progress: Progress | None = None
    ) -> Float[np.ndarray, "N"]:
        """Negative log-likelihood (nats) of each beginning; if ``prompted``, given its summary as prompt."""
        pairs = self.prompts.before(beginnings, prompted)
        rows = target_log_probs(self.model, pairs, self.batch_size, self.inputs, progress)
        return np.array([-math.fsum(row.tolist()) for row in rows])

    def likelihood(self, beginnings: Sequence[Beginning], nats: Float[np.ndarray, "N"]) -> dict[str, MetricValue]:
        """From each article's ``nats``: nats, bits per byte and perplexity of all articles, and the mean perplexity."""
        total = likelihood_sum(self.prompts.before(beginnings, prompted=False), nats.tolist())
        token, texts = "article token", "articles"
        return likelihood_values(total, token, texts) | mean_perplexity(total, token, texts)


def steering_metrics(
    scorer: SteeringScorer, beginnings: Sequence[Beginning], seed: int, progress: Progress | None = None
) -> dict[str, MetricValue]:
    """Likelihood without and with the summary as prompt, and steering: the nats that another summary adds per token.

    ``seed`` determines which other article's summary each article gets.
    """
    others = with_other_summaries(beginnings, seed)
    settings = [(beginnings, False), (beginnings, True), (others, True)]
    if scorer.model.conditioner is not None:
        settings.append((others, False))  # without conditioner and prompt, the model does not get the summary
    nats = [
        scorer.nats(pairs, prompted, progress_within(progress, number / len(settings), (number + 1) / len(settings)))
        for number, (pairs, prompted) in enumerate(settings)
    ]
    alone, prompted_right, prompted_other, *guided_other = nats
    metrics = scorer.likelihood(beginnings, alone)
    prompted_metrics = scorer.likelihood(beginnings, prompted_right)
    metrics |= {f"prompted_{name}": value for name, value in prompted_metrics.items()}
    tokens = np.array([len(one.ids) for one in beginnings], dtype=np.float64)
    if guided_other:
        metrics["steering"] = _steering(guided_other[0] - alone, tokens)
    metrics["prompted_steering"] = _steering(prompted_other - prompted_right, tokens)
    return metrics


def _steering(lost: Float[np.ndarray, "N"], tokens: Float[np.ndarray, "N"]) -> MetricValue:
    # a paired bootstrap: it resamples articles, each with both of its likelihoods
    unit = "nats per article token lost with another article's summary"
    return measured_value(float(lost.sum() / tokens.sum()), unit, int(tokens.sum()), bootstrap_ratio(lost, tokens))


def with_other_summaries(beginnings: Sequence[Beginning], seed: int) -> list[Beginning]:
    """Assign each article the summary and prompt of another article. No summary is used twice.

    Raises:
        ValueError: If no assignment was found, because too many pairs share an article or a summary.
    """
    chance = random.Random(seed)
    order = list(range(len(beginnings)))
    for _ in range(SHUFFLES):
        chance.shuffle(order)
        # each article gets the summary of the next article in a circle, so no article keeps its own
        others = {one: beginnings[other] for one, other in zip(order, [*order[1:], order[0]], strict=True)}
        given = [(beginnings[one], other) for one, other in others.items()]
        if all(one.summary != other.summary and one.article != other.article for one, other in given):
            return [
                replace(one, summary=others[number].summary, prompt=others[number].prompt)
                for number, one in enumerate(beginnings)
            ]
    raise ValueError(
        f"steering: each of the {len(beginnings)} test articles must get another article's summary (too many share an "
        "article or a summary). Give more test pairs (task.test_share, task.test_pairs)."
    )
