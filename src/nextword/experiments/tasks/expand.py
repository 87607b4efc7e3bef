"""From a summary to an article that follows it: a summarisation data set read backwards.

The data is pairs, one JSON object a line:

    {"highlights": "Bishop of Fargo is in a hospital .", "article": "Bishop John Folda , of North Dakota , is taking
     time off after being diagnosed with Hepatitis A . ..."}

A model reads the summary as a prompt, or through an encoder beside it, and writes on after a start token.

Source: He, Chen and Kim, "Generative Pre-Training Language Models with Auxiliary Conditional Summaries" (report of
Stanford's CS224N), sections 4.1 to 4.3.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from nextword.experiments.tasks.parts.bpe import named_or_trained
from nextword.experiments.tasks.parts.expand.expand_settings import ExpandGenerationConfig, ExpandStartConfig
from nextword.experiments.tasks.parts.expand.steering import Scorer, steering_metrics, with_other_summaries
from nextword.experiments.tasks.parts.expand.summary_articles import SummaryArticles
from nextword.experiments.tasks.parts.pair_samples import PairSamples
from nextword.experiments.tasks.parts.prompted_texts import PromptedTexts
from nextword.experiments.tasks.parts.small_start import SmallStart
from nextword.experiments.tasks.task import Measures, Task, registry
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.writing_settings import MAY_CHANGE
from nextword.inference.scoring.calibration.chosen_settings import tuned
from nextword.inference.scoring.minibatches import Progress
from nextword.model.training_modes import measuring
from nextword.results.records import WITH_PROMPT, Evaluation, MetricValue
from nextword.runtime.corpora import open_corpus
from nextword.runtime.corpora.pairs import Reading, Side
from nextword.runtime.corpora.stories import STORIES
from nextword.settings.config import Seed, Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ExpandConfig(Settings):
    """What can be set; ``data`` must be."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files, or a folder with .story files, whose
    highlights are the summary."""
    summary_field: str = "highlights"
    """Field of a JSON line that holds the summary."""
    article_field: str = "article"
    """Field that holds the article."""
    split_field: str | None = None
    """Field of one .jsonl file that says train, validation or test; None: it is split by a hash of the article."""
    validation_share: float = Field(default=0.05, gt=0, lt=1)
    """Share of the pairs of one .jsonl file, or of a folder of stories, that validates."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Share that tests; the rest trains."""
    seed: Seed = 0
    """Seed of the split by hash, of the samples and slices below, and of the shuffled summaries."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Training pairs at most, a sample; None: all."""
    validation_pairs: int | None = Field(default=500, ge=1)
    """Validation pairs at most."""
    test_pairs: int | None = Field(default=1000, ge=2)
    """Test pairs at most."""
    tuning_pairs: int = Field(default=100, ge=1)
    """Validation pairs on which a cache's temperature and weight are chosen."""
    length: int = Field(default=128, ge=2)
    """Tokens of a training slice, of the beginning of a test article that is scored, and of a written text; shorter
    articles are left out."""
    prompt_tokens: int = Field(default=96, ge=1)
    """Tokens of a summary as prompt; longer ones are cut off at the end, as prompts only."""
    prompted_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the training rows that begin with their summary as prompt, another choice in each epoch."""
    encoder: str | None = None
    """Folder or hub name of the encoder that reads the summaries; None or "minilm": all-MiniLM-L6-v2 from its package,
    where that is installed."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on all that models are trained on."""
    vocabulary: int = Field(default=8000, ge=258)
    """Tokens of the trained BPE."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Articles at a time in measurements."""
    generation: ExpandGenerationConfig = ExpandGenerationConfig()
    """Texts that every method writes."""
    start: ExpandStartConfig = ExpandStartConfig()
    """The start model where no pretrained one is given."""


@registry.register("expand")
class Expand(Task):
    """Articles written from summaries: likelihood, and whether the summary steers. See docs/tasks/expand.md."""

    name = "expand"
    version = 1
    Config = ExpandConfig
    may_change = MAY_CHANGE
    # for the small start on two CPU cores; see the recipes for more
    training_defaults: ClassVar[dict[str, Any]] = {
        "epochs": 10, "batch_size": 16, "learning_rate": 1e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: SummaryArticles

    def __init__(self, config: ExpandConfig) -> None:
        self.config = config
        reading = Reading(
            source=Side("summary", config.summary_field), target=Side("article", config.article_field),
            split_field=config.split_field, validation_share=config.validation_share, test_share=config.test_share,
            seed=config.seed, other=STORIES, hashed="target",
        )  # fmt: skip
        sizes = config.train_pairs, config.validation_pairs, config.test_pairs
        pairs = PairSamples(Path(config.data), reading, sizes)
        start_texts = [(path, "".join(open_corpus(path, "task.start.data"))) for path in config.start.data]
        self.data = SummaryArticles(
            pairs, config.encoder, config.length, config.prompt_tokens, config.prompted_share, start_texts
        )
        self.start = ArticleStart(self.data, config)
        self.measures = Steering(self.data, config)
        texts = config.generation.texts()
        if texts is not None:
            size = config.generation.batch_size
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, self.data.inputs)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The model's positions must hold a prompt and a text, and there must be articles that are long enough."""
        prompts = self.data.prompts(tokenizer)
        limit = getattr(model_config, "max_position_embeddings", None)
        if limit is not None and prompts.positions > limit:
            raise ValueError(
                f"a start token, task.prompt_tokens ({self.config.prompt_tokens}), a line end and task.length "
                f"({self.config.length}) are {prompts.positions} tokens, the start model has {limit} positions"
            )
        self.data.expect_long_articles(tokenizer)
        prompts.beginnings(self.data.pairs.validation, "validation")
        with_other_summaries(prompts.beginnings(self.data.pairs.test, "test"), self.config.seed)

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        """Of the first test pairs whose articles are long enough: without prompt, and with the summary as prompt."""
        prompts = self.data.prompts(tokenizer)
        beginnings = prompts.beginnings(self.data.pairs.test, "test")[: self.config.generation.prompts]
        return {"": prompts.before(beginnings, prompted=False), WITH_PROMPT: prompts.before(beginnings, prompted=True)}


class ArticleStart(SmallStart):
    """A small GPT-2, trained on the training articles and ``task.start.data``; it sees no encoder."""

    def __init__(self, data: SummaryArticles, config: ExpandConfig) -> None:
        start = config.start
        super().__init__(
            lambda: named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache),
            architecture=lambda tokenizer: start.architecture(
                tokenizer, max(start.block, data.prompts(tokenizer).positions)
            ),
            rows=lambda tokenizer, seed: data.start_rows(tokenizer, seed, start.block, start.prompted_share),
            training=start.training(),
        )
        self._data = data

    def probe(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """How many articles are too short, which depends on the start's tokenizer."""
        return self._data.too_short(tokenizer)


class Steering(Measures):
    """Likelihood of the test articles' beginnings without and with prompt, and what another summary does to it."""

    def __init__(self, data: SummaryArticles, config: ExpandConfig) -> None:
        self._data, self._config = data, config

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """On all test articles that are long enough."""
        scorer = self._scorer(model, tokenizer)
        beginnings = scorer.prompts.beginnings(self._data.pairs.test, "test")
        with measuring(model):
            return Evaluation(metrics=steering_metrics(scorer, beginnings, self._config.seed, progress))

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation articles."""
        scorer = self._scorer(model, tokenizer)
        beginnings = scorer.prompts.beginnings(self._data.pairs.validation, "validation")[: self._config.tuning_pairs]
        return tuned(model, lambda: scorer.nats(beginnings, prompted=False))

    def _scorer(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> Scorer:
        inputs = self._data.inputs(model, tokenizer)
        return Scorer(model, self._data.prompts(tokenizer), inputs, self._config.batch_size)
