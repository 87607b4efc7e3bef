"""Language modelling on a text file or folder: perplexity, nats per token, bits per byte.

Window and stride are settings, every token is scored exactly once, and bits per byte can be compared across tokenizers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field

from nextword.config import Settings
from nextword.corpora.texts import read_parts
from nextword.decoding.continuations import MAY_CHANGE, ContinuationConfig, Continuations, Prompt, prompts
from nextword.decoding.strategies import Decoding, Texts
from nextword.metrics.likelihood import LikelihoodSum
from nextword.records import Evaluation
from nextword.scoring.ask import Progress, batches, measuring, start_id
from nextword.scoring.windows import Window, windows
from nextword.tasks.parts.bpe import ids_and_bytes, named_or_trained, token_ids
from nextword.tasks.parts.cache_tuning import tune_cache
from nextword.tasks.parts.gpt2_start import Gpt2StartConfig
from nextword.tasks.parts.likelihood_values import likelihood_values
from nextword.tasks.task import Start, Task, registry

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class LmFilesConfig(Settings):
    """Files of the folder ``data``, by part."""

    train: str
    """File of the training text."""
    valid: str
    """File of the validation text."""
    test: str
    """File of the test text."""


class LmConfig(Settings):
    """What can be set; ``data`` must be."""

    data: str
    """A folder with train.txt, valid.txt and test.txt, or one text file, which is cut 90/5/5 % by line position. Tables
    (.tsv, .csv, .jsonl, .parquet) may stand for the text files, or ``name`` or ``name:config`` of a data set of the
    hub for the folder."""
    text_column: str | int = "text"
    """The column with the text of a table, by name, or by number from 0 in files without header."""
    files: LmFilesConfig | None = None
    """Names of the three files where they do not say which part they are; all three must be given."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on the training text."""
    vocabulary: int = Field(default=8000, ge=258)
    """Tokens of the trained BPE."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    block: int = Field(default=256, ge=2)
    """Tokens of one training row."""
    window: int = Field(default=256, ge=2)
    """Tokens a model sees at once in measurements; at most what its positions allow."""
    stride: int = Field(default=128, ge=1)
    """New tokens scored by each window after the first."""
    test_tokens: int | None = Field(default=100_000, ge=2)
    """Tokens of the test text that are scored, from its beginning; None: all."""
    tuning_tokens: int = Field(default=4096, ge=2)
    """Tokens of the validation text on which a cache's temperature and weight are chosen."""
    batch_size: int = Field(default=8, ge=1)
    """Windows at a time in measurements."""
    generation: ContinuationConfig = ContinuationConfig()
    """Texts that every method writes."""
    start: Gpt2StartConfig = Gpt2StartConfig()
    """The start model where no pretrained one is given."""


@registry.register("lm")
class LanguageModelling(Task):
    """Next-token likelihood of a text of your own. See docs/tasks/lm.md."""

    name = "lm"
    version = 1
    Config = LmConfig
    may_change = MAY_CHANGE

    def __init__(self, config: LmConfig) -> None:
        self.config = config
        if config.stride > config.window:
            raise ValueError(f"task.stride ({config.stride}) must not be longer than task.window ({config.window})")
        files = config.files.model_dump() if config.files is not None else None
        self.parts = read_parts(config.data, "task.data", config.text_column, files)

    def describe(self) -> dict[str, int | float | str]:
        """Bytes of each part, the split and the checksum; the number of scored tokens is in each result's ``n``."""
        return {
            "source": self.parts.source,
            "sha256": self.parts.sha256,
            "split": self.parts.split,
            "train_bytes": len(self.parts.train.encode()),
            "validation_bytes": len(self.parts.validation.encode()),
            "test_bytes": len(self.parts.test.encode()),
            "window": self.config.window,
            "stride": self.config.stride,
        }

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that was named, or a byte-level BPE trained on the training text."""
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        return named_or_trained(
            self.config.tokenizer, lambda: self.parts.train, self.config.vocabulary, self.config.cache
        )

    def start(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Start:
        """A small GPT-2, trained on the training text."""
        architecture = self.config.start.architecture(tokenizer, max(self._lengths().values()))
        return Start(architecture, self.training(tokenizer), self.config.start.training())

    def check_start(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The model's positions must hold a window, a block and a text after its prompt."""
        limit = getattr(config, "max_position_embeddings", None)
        for name, size in self._lengths().items():
            if limit is not None and size > limit:
                raise ValueError(f"task.{name} ({size}) is longer than the {limit} positions of the start model")
        if self.config.generation.prompts:
            self._prompts(tokenizer)

    def _lengths(self) -> dict[str, int]:
        """Tokens that the model must be able to see at once, by setting."""
        lengths = {"window": self.config.window, "block": self.config.block}
        written = self.config.generation
        return {**lengths, **({"generation: prefix + continuation": written.block} if written.prompts else {})}

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Contiguous blocks of the training text; a remainder shorter than a block is left out."""
        return self._blocks(tokenizer, self.parts.train, "training")

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Contiguous blocks of the validation text."""
        return self._blocks(tokenizer, self.parts.validation, "validation")

    def training_defaults(self) -> dict[str, Any]:
        """Sized for the small start on two CPU cores; a pretrained model wants a learning rate of 1e-5 to 5e-5."""
        return {"steps": 200, "batch_size": 8, "learning_rate": 2e-3, "freeze_output_embeddings": False}

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation tokens."""
        stream, counts = _stream(tokenizer, self.parts.validation, self.config.tuning_tokens)
        size = min(self.config.window, len(stream) - 1)
        found = windows(len(stream), size, stride=size)
        with measuring(model):
            return tune_cache(model, lambda: self._score(model, stream, counts, found, None).nll())

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Perplexity and nll per token of this tokenizer, and bits per byte of the text, with bootstrap intervals."""
        stream, counts = _stream(tokenizer, self.parts.test, self.config.test_tokens)
        found = windows(len(stream), self.config.window, self.config.stride)
        with measuring(model):
            total = self._score(model, stream, counts, found, progress)
        return Evaluation(metrics=likelihood_values(total))

    def texts(self) -> Texts | None:
        """Continuations of the test text, where ``task.generation.prompts`` asks for some."""
        return self.config.generation.texts()

    def test_text(self) -> str:
        """All of the test text, however much of it is scored."""
        return self.parts.test

    def write(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[Path, Decoding],
        seed: int,
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Continues the prompts; the log-probabilities of what people wrote are the same in each file."""
        texts = Continuations(self.config.generation, self._prompts(tokenizer), tokenizer, self.config.batch_size)
        texts.write(model, files, seed, arguments, progress)

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> list[Prompt]:
        return prompts(*ids_and_bytes(tokenizer, self.parts.test), self.config.generation)

    def _score(
        self,
        model: Any,
        stream: torch.Tensor,
        counts: Int[np.ndarray, "N"],
        found: list[Window],
        progress: Progress | None,
    ) -> LikelihoodSum:
        total = LikelihoodSum()
        done = 0
        for part in batches(found, self.config.batch_size):
            inputs = torch.stack([stream[w.begin : w.begin + w.size] for w in part]).to(model.device)
            targets = torch.stack([stream[w.begin + 1 : w.begin + w.size + 1] for w in part]).to(model.device)
            lengths = torch.tensor([w.scored for w in part], device=model.device)
            scored = torch.arange(inputs.shape[1], device=model.device)[None, :] >= inputs.shape[1] - lengths[:, None]
            dist = model.distribution(inputs, attention_mask=torch.ones_like(inputs), positions=scored)
            nats = -dist.log_prob(targets[scored][:, None])[:, 0].double().cpu()
            for window, block in zip(part, nats.split([w.scored for w in part]), strict=True):
                # counts[i] belongs to the token at i + 1 of the stream, after the start token.
                covered = int(counts[window.targets.start - 1 : window.targets.stop - 1].sum())
                total.add(float(block.sum()), window.scored, covered)
            done += len(part)
            if progress is not None:
                progress(done / len(found))
        return total

    def _blocks(self, tokenizer: PreTrainedTokenizerBase, text: str, part: str) -> Dataset:
        from datasets import Dataset

        stream = [start_id(tokenizer), *token_ids(tokenizer, text)]
        size = self.config.block
        blocks = [stream[i : i + size] for i in range(0, len(stream) - size + 1, size)]
        if not blocks:
            raise ValueError(
                f"the {part} text has {len(stream) - 1} tokens, shorter than one block of {size}. Give more text or a "
                f"smaller task.block."
            )
        return Dataset.from_dict({"input_ids": blocks, "labels": blocks})


def _stream(
    tokenizer: PreTrainedTokenizerBase, text: str, limit: int | None
) -> tuple[torch.Tensor, Int[np.ndarray, "N"]]:
    ids, counts = ids_and_bytes(tokenizer, text)
    return torch.tensor([start_id(tokenizer), *ids[:limit]]), counts[:limit]
