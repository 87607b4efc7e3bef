"""Language modelling on your own text: perplexity, nats per token, bits per byte.

The data is plain text, read from the beginning to the end:

     = Robert Boulter =
     Robert Boulter is an English film , television and theatre actor . He had a guest @-@ starring role on the
     television series The Bill in 2000 .

The test text is scored in windows of ``window`` tokens that begin every ``stride`` tokens. Every token is scored
exactly once. Bits per byte can be compared between tokenizers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from nextword.experiments.tasks.small_start import Gpt2StartConfig
from nextword.experiments.tasks.task import registry
from nextword.experiments.tasks.window_likelihood import TextBlocks, TokenStream, WindowConfig, WindowTask
from nextword.experiments.tasks.writing import ContinuationConfig, block_prompts
from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.text_tokens import ids_and_bytes, start_id, token_ids
from nextword.runtime.corpora.texts import TextParts, read_parts, text_counts
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class LmFilesConfig(Settings):
    """Names of the files in the folder ``data``, by split."""

    train: str
    """File with the training text."""
    valid: str
    """File with the validation text."""
    test: str
    """File with the test text."""


class LmConfig(WindowConfig):
    """Settings of the task; ``data`` is required."""

    data: str
    """A folder with train.txt, valid.txt and test.txt; one text file, which is split 90/5/5 % by line position; or
    ``name`` or ``name:config`` of a data set on the hub. Tables (.tsv, .csv, .jsonl, .parquet) may be used instead of
    text files."""
    text_column: str | int = "text"
    """Column with the text of a table, by name, or by number from 0 in files without a header."""
    files: LmFilesConfig | None = None
    """Names of the three files, if the names do not show the splits; give all three names."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; none: train a byte-level BPE on the training text."""
    vocabulary: int = Field(default=8000, ge=258)
    """Vocabulary size of the trained BPE."""
    cache: str | None = None
    """Folder for trained tokenizers; none: train one in each run (seconds)."""
    block: int = Field(default=256, ge=2)
    """Tokens per training row."""
    train_tokens: int | None = Field(default=None, ge=2)
    """Number of training tokens, from the start of the text; none: all."""
    validation_tokens: int | None = Field(default=None, ge=2)
    """Number of validation tokens, from the start of the text; none: all."""
    generation: ContinuationConfig = ContinuationConfig()
    """Texts that every method generates."""
    start: Gpt2StartConfig = Gpt2StartConfig()
    """The small initial model, used if no pretrained model is given."""


@registry.register("lm")
class LanguageModelling(WindowTask):
    """Next-token likelihood of your own text. See docs/tasks/lm.md."""

    name = "lm"
    version = 1
    Config = LmConfig
    # for the small start on two CPU cores; a pretrained one has the rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 200, "batch_size": 8, "learning_rate": 2e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: TextData

    def __init__(self, config: LmConfig) -> None:
        files = config.files.model_dump() if config.files is not None else None
        parts = read_parts(config.data, "task.data", config.text_column, files)
        super().__init__(
            config,
            TextData(parts, config),
            lambda: parts.train,
            test=lambda tokenizer, limit: TokenStream.of(tokenizer, parts.test, limit),
            validation=lambda tokenizer, limit: TokenStream.of(tokenizer, parts.validation, limit),
        )

    def _written_lengths(self) -> dict[str, int]:
        return {"generation: prefix + continuation": self.config.generation.block}

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        return {"": block_prompts(*ids_and_bytes(tokenizer, self.data.test_text()), self.config.generation)}


class TextData(TextBlocks):
    """Training, validation and test text."""

    def __init__(self, parts: TextParts, config: LmConfig) -> None:
        super().__init__(config.block)
        self.parts, self._config = parts, config

    def describe(self) -> dict[str, int | float | str]:
        """Bytes of each split, the kind of split, the checksum, and window and stride of the measurements."""
        return {
            "source": self.parts.source,
            "sha256": self.parts.sha256,
            "split": self.parts.split,
            "train_bytes": len(self.parts.train.encode()),
            "validation_bytes": len(self.parts.validation.encode()),
            "test_bytes": len(self.parts.test.encode()),
            "window": self._config.window,
            "stride": self._config.stride,
        }

    def counts(self) -> dict[str, int]:
        """Articles and words of each split (F2-Softmax, table 5)."""
        return self._counts

    @cached_property
    def _counts(self) -> dict[str, int]:
        texts = {"train": self.parts.train, "validation": self.parts.validation, "test": self.parts.test}
        return {
            f"{part}_{name}": count
            for part, text in texts.items()
            for name, count in text_counts(text)._asdict().items()
        }

    def token_stream(self, tokenizer: PreTrainedTokenizerBase, part: str) -> tuple[list[int], str]:
        """The ids of a start token and of the text of a split, and the split's name in messages."""
        limit = self._config.train_tokens if part == "train" else self._config.validation_tokens
        ids = [start_id(tokenizer), *token_ids(tokenizer, getattr(self.parts, part), limit)]
        return ids, "the training text" if part == "train" else "the validation text"

    def test_text(self) -> str:
        """The whole test text, even if only part of it is scored."""
        return self.parts.test
