"""Pairs for decoder-only models. The source is the prompt, which is not predicted, and the target follows it.

    {"source": "The river Aare rises in the Alps and flows through Bern.", "target": "The Aare flows through Bern."}

A row is a start token, the prefix, the source, the separator, the target and an end token. ``nextword train`` uses this
task for pairs, and generates no texts.

Source: HistAlign (Wan, Zhang and Bansal, 2023), tables 5 and 7, which have encoder-decoder models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nextword.experiments.tasks.pair_measures import TargetLikelihood
from nextword.experiments.tasks.pair_task import PairRows, PairsConfig, PairTask, source_prompts, with_each_reference
from nextword.experiments.tasks.small_start import Gpt2StartConfig, SmallStart
from nextword.experiments.tasks.summarise import SummaryGenerationConfig, written_targets
from nextword.experiments.tasks.task import Task, expect_positions, registry
from nextword.experiments.tasks.tokenizers import expect_end, named_or_trained
from nextword.experiments.tasks.writing import MAY_CHANGE
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.likelihood import TokenPair
from nextword.inference.scoring.text_tokens import expect_offsets, start_id
from nextword.runtime.corpora.articles import STORIES
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.logicnlg import TABLE_PAIRS
from nextword.runtime.corpora.pairs import first_claiming

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class PromptedTextsConfig(SummaryGenerationConfig):
    """Settings of the generation from test sources, and its metrics."""

    summaries: int = Field(default=0, ge=0)
    """Number of test sources, from the first, after which each model generates a text; 0: none."""


class PromptedPairsConfig(PairsConfig):
    """Settings of the task; ``data`` is required."""

    source_prefix: str = ""
    """Text before every source, such as "Summarise: ". It is part of the prompt. It may contain special tokens, such as
    those of a chat template. If it begins with the start token, no other start token is added."""
    separator: str = "\n"
    """Text between a source and its target. It is part of the prompt."""
    generation: PromptedTextsConfig = PromptedTextsConfig()
    """Texts that every method generates."""
    start: Gpt2StartConfig = Gpt2StartConfig()
    """The small initial model, used if no pretrained model is given."""

    @property
    def longest_text(self) -> int:
        """Maximum tokens of a generated text; 0: none are generated."""
        return (self.generation.max_tokens or self.max_target_tokens) if self.generation.summaries else 0


class PromptEncoder:
    """Tokenizes pairs as prompt and target.

    Raises:
        ValueError: If the tokenizer has no end-of-sequence token, or gives no character offsets.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: PromptedPairsConfig) -> None:
        expect_offsets(tokenizer)
        self._tokenizer: Any = tokenizer
        self._config = config
        self._start, self._end = start_id(tokenizer), expect_end(tokenizer)
        prefix, self._separator = self._ids([config.source_prefix, config.separator])
        self._before = prefix if prefix[:1] == [self._start] else [self._start, *prefix]

    @property
    def positions(self) -> int:
        """Maximum number of tokens of a row, and of a prompt with its generated text."""
        fixed = len(self._before) + len(self._separator)
        longest = max(self._config.max_target_tokens, self._config.longest_text)
        return fixed + self._config.max_source_tokens + longest

    def __call__(self, pairs: Sequence[Pair]) -> list[TokenPair]:
        """Tokenize pairs."""
        if not pairs:
            return []
        targets, sources = [pair.target for pair in pairs], self._ids([pair.source for pair in pairs])
        encoded = self._tokenizer(targets, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        room = self._config.max_target_tokens - 1
        tokens = []
        for source, target, ids, offsets in zip(
            sources, targets, encoded["input_ids"], encoded["offset_mapping"], strict=True
        ):
            # if a target is not truncated, characters that the tokenizer drops at the end belong to it
            covered = target if len(ids) <= room else target[: max(end for _, end in offsets[:room])]
            read = source[: self._config.max_source_tokens]
            context = [*self._before, *read, *self._separator]
            tokens.append(TokenPair(context, [*ids[:room], self._end], len(covered.encode())))
        return tokens

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return ids


@registry.register("prompted-pairs")
class PromptedPairs(Task):
    """Generate targets after sources (decoder-only models): likelihood, ROUGE. See docs/tasks/prompted-pairs.md."""

    name = "prompted-pairs"
    version = 1
    Config = PromptedPairsConfig
    may_change = MAY_CHANGE
    training_defaults = PairTask.training_defaults
    data: PromptedRows

    def __init__(self, config: PromptedPairsConfig) -> None:
        self.config = config
        self.pairs = config.samples(first_claiming(TABLE_PAIRS, STORIES))
        self.data = data = PromptedRows(self.pairs, self._encoder)
        self.start = SmallStart(
            lambda: named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, self._encoder(tokenizer).positions),
            rows=lambda tokenizer, seed: data.training(tokenizer),
            training=config.start.training(),
        )
        self.measures = TargetLikelihood(self._tokens, config.batch_size, config.tuning_pairs)
        self.writes = written_targets(config, self._prompts)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that a row fits the model's positions."""
        longest = self._encoder(tokenizer).positions
        generates = self.config.longest_text > self.config.max_target_tokens
        target = "task.generation.max_tokens" if generates else "task.max_target_tokens"
        parts = f"source_prefix + task.max_source_tokens + task.separator + {target}"
        expect_positions(model_config, {parts: longest})

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PromptEncoder:
        return PromptEncoder(tokenizer, self.config)

    def _tokens(self, tokenizer: PreTrainedTokenizerBase, part: str, count: int | None) -> list[TokenPair]:
        return self._encoder(tokenizer)(getattr(self.pairs, part)[:count])

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        pairs = self.pairs.test[: self.config.generation.summaries]
        return {"": source_prompts(pairs, self._encoder(tokenizer)(pairs), special=1)}


class PromptedRows(PairRows):
    """Rows of prompt and target, one row per target; only the target has labels."""

    def _rows(self, pairs: Sequence[Any], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        from datasets import Dataset

        encoded = self._encoder(tokenizer)(with_each_reference(pairs))
        return Dataset.from_dict(
            {
                "input_ids": [[*one.context, *one.target] for one in encoded],
                "labels": [[IGNORED_LABEL] * len(one.context) + one.target for one in encoded],
            }
        )
