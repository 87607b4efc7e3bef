# ruff: noqa: N999  (a task's file bears its name, which here is a word of Python too)
"""Stories, and how a method goes on with them: the beginning of a story is a prompt, and a text may end.

The data is stories, one JSON object a line:

    {"story": "Dianne wished so many things. She wished he would stop calling. She wished for company. ..."}

A model is trained on blocks of the stories, one after the other. Of each test story it reads the first 50 tokens and
writes up to 256, beside what people wrote there.

Source: Wan, Zhang and Bansal, "HistAlign: Improving Context Dependency in Language Generation by Aligning with History"
(EMNLP 2023), sections 5.1 to 5.3 and appendix A.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from nextword.experiments.tasks.parts.architecture import expect_positions
from nextword.experiments.tasks.parts.blocks import block_rows
from nextword.experiments.tasks.parts.bpe import named_or_trained
from nextword.experiments.tasks.parts.continuation.story_files import StoryParts, StoryReading, read_stories
from nextword.experiments.tasks.parts.continuation.story_tokens import story_ids, story_prompts, story_stream
from nextword.experiments.tasks.parts.gpt2_start import Gpt2StartConfig
from nextword.experiments.tasks.parts.prompted_texts import PromptedTexts
from nextword.experiments.tasks.parts.small_start import SmallStart
from nextword.experiments.tasks.parts.window_likelihood import WindowConfig, WindowLikelihood
from nextword.experiments.tasks.task import Data, Task, registry
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.inference.generation.writing_settings import MAY_CHANGE, Texts, WritingConfig
from nextword.settings.config import Seed

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

METRICS: tuple[str | dict[str, Any], ...] = ("diversity", "coherence", "rep", "seq-rep", "likelihood")
"""Those of HistAlign's table 3 but for MAUVE, which needs a language model to be named, and repetition."""


class StoryWritingConfig(WritingConfig):
    """What is written after the beginnings of test stories, and how it is measured."""

    prompts: int = Field(default=100, ge=0)
    """Test stories, from the first, that give a prompt each; fewer where there are no more; 0: no texts."""
    prefix: int = Field(default=50, ge=1)
    """Tokens of a prompt: the first ones of its story; a story that is not longer gives none."""
    continuation: int = Field(default=256, ge=1)
    """Tokens of a text at most, of people's and of each method's; either may end before."""
    decodings: list[Decoding] = Field(default=[Decoding(top_p=0.95)], min_length=1)
    """Ways to write, a samples file each."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later."""

    @property
    def positions(self) -> int:
        """Tokens of a start token, a prompt and its text."""
        return 1 + self.prefix + self.continuation

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        return self.texts_after("") if self.prompts else None


class StoriesConfig(WindowConfig):
    """What can be set; ``data`` must be."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files or with WritingPrompts' .wp_target files, or
    plain text with a story a line, or between blank lines."""
    story_field: str = "story"
    """Field of a JSON line that holds the story."""
    split_field: str | None = None
    """Field of a JSON line that says train, validation or test; None: one file is split by a hash of the story."""
    validation_share: float = Field(default=0.05, gt=0, lt=0.5)
    """Share of the stories that validates, where nothing says which do."""
    test_share: float = Field(default=0.05, gt=0, lt=0.5)
    """Share that tests, where nothing says which do; the rest trains."""
    seed: Seed = 0
    """Seed of the split by hash."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on the training stories."""
    vocabulary: int = Field(default=8000, ge=258)
    """Tokens of the trained BPE."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    block: int = Field(default=512, ge=2)
    """Tokens of one training row."""
    window: int = Field(default=512, ge=2)
    """Tokens a model sees at once in measurements; at most what its positions allow."""
    stride: int = Field(default=256, ge=1)
    """New tokens scored by each window after the first."""
    generation: StoryWritingConfig = StoryWritingConfig()
    """Texts that every method writes."""
    start: Gpt2StartConfig = Gpt2StartConfig()
    """The start model where no pretrained one is given."""


@registry.register("continue")
class StoryContinuation(Task):
    """Stories that a method goes on with. See docs/tasks/continue.md."""

    name = "continue"
    version = 1
    Config = StoriesConfig
    may_change = MAY_CHANGE
    # for the small start on two CPU cores; a pretrained one has the rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 200, "batch_size": 4, "learning_rate": 1e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: StoryBlocks
    measures: WindowLikelihood

    def __init__(self, config: StoriesConfig) -> None:
        self.config = config
        reading = StoryReading(
            config.story_field, config.split_field, config.validation_share, config.test_share, config.seed
        )
        stories = read_stories(Path(config.data), reading)
        self.data = StoryBlocks(stories, config)
        self.start = SmallStart(
            lambda: named_or_trained(
                config.tokenizer, lambda: "\n".join(stories.train), config.vocabulary, config.cache
            ),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, max(self._lengths().values())),
            rows=lambda tokenizer, seed: self.data.training(tokenizer),
            training=config.start.training(),
        )
        self.measures = WindowLikelihood(
            lambda tokenizer, limit: story_stream(tokenizer, stories.test, limit),
            lambda tokenizer, limit: story_stream(tokenizer, stories.validation, limit),
            config,
        )
        texts = config.generation.texts()
        if texts is not None:
            longest, size = config.generation.continuation, config.generation.batch_size
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, longest=longest)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The model's positions must hold a window, a block and a text after its prompt; the test stories a window."""
        expect_positions(model_config, self._lengths())
        self.measures.test_windows(tokenizer)
        if self.writes is not None:
            self._prompts(tokenizer)

    def _lengths(self) -> dict[str, int]:
        """Tokens that the model must be able to see at once, by setting."""
        lengths = {"window": self.config.window, "block": self.config.block}
        generation = self.config.generation
        written = {"generation: 1 + prefix + continuation": generation.positions} if generation.prompts else {}
        return lengths | written

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        generation = self.config.generation
        sizes = (generation.prompts, generation.prefix, generation.continuation)
        return {"": story_prompts(tokenizer, self.data.stories.test, *sizes)}


class StoryBlocks(Data):
    """Stories one after the other; rows are contiguous blocks of them."""

    def __init__(self, stories: StoryParts, config: StoriesConfig) -> None:
        self.stories, self._config = stories, config

    def describe(self) -> dict[str, int | float | str]:
        """Stories of each part, the split, the checksum, and how many test stories are training stories too."""
        stories = self.stories
        known = set(stories.train)
        return {
            "source": stories.source,
            "sha256": stories.sha256,
            "split": stories.split,
            "train_stories": len(stories.train),
            "validation_stories": len(stories.validation),
            "test_stories": len(stories.test),
            "empty_stories_left_out": stories.empty,
            "leak_stories": sum(story in known for story in stories.test),
        }

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Blocks of the training stories."""
        return self._blocks(tokenizer, self.stories.train, "the training stories")

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Blocks of the validation stories."""
        return self._blocks(tokenizer, self.stories.validation, "the validation stories")

    def test_text(self) -> str:
        """All test stories, one after the other."""
        return "\n".join(self.stories.test)

    def _blocks(self, tokenizer: PreTrainedTokenizerBase, stories: list[str], name: str) -> Dataset:
        return block_rows(story_ids(tokenizer, stories), self._config.block, name, "task.block")
