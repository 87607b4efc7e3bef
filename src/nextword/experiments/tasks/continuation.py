"""Story continuation: the beginning of a story is the prompt, and a text may end before its maximum length.

Each line of the data is a JSON object with one story:

    {"story": "Dianne wished so many things. She wished he would stop calling. She wished for company. ..."}

A model is trained on blocks of the concatenated stories. From the first 50 tokens of each test story the model
generates up to 256 tokens, which are compared with the rest of the story.

Source: Wan, Zhang and Bansal, "HistAlign: Improving Context Dependency in Language Generation by Aligning with History"
(EMNLP 2023), sections 5.1 to 5.3 and appendix A.2.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from nextword.evaluation.samples import plain_text_of
from nextword.experiments.tasks.small_start import Gpt2StartConfig
from nextword.experiments.tasks.task import registry
from nextword.experiments.tasks.window_likelihood import TextBlocks, TokenStream, WindowConfig, WindowTask
from nextword.experiments.tasks.writing import Texts, WritingConfig
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.text_tokens import ids_and_bytes, start_id, token_ids
from nextword.runtime.corpora import PARTS, JsonLine, is_json_lines, json_lines, numbered_lines, part_files
from nextword.runtime.corpora.pairs import part_by_hash, part_named, texts_at
from nextword.settings.config import Seed

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


METRICS: tuple[str | dict[str, Any], ...] = ("diversity", "coherence", "rep", "seq-rep", "likelihood")
"""Metrics of HistAlign's table 3 without MAUVE, for which the user must name a language model, and metrics of
repetition."""


class StoryWritingConfig(WritingConfig):
    """Settings of the generation from test stories, and its metrics."""

    prompts: int = Field(default=100, ge=0)
    """Maximum number of prompts, one per test story, from the first story; 0: generate no texts."""
    prefix: int = Field(default=50, ge=1)
    """Tokens per prompt, from the start of a story. Stories without more tokens than this are skipped."""
    continuation: int = Field(default=256, ge=1)
    """Maximum number of tokens of a generated text, and of the human reference. The text and the reference may end
    earlier."""
    decodings: list[Decoding] = Field(default=[Decoding(top_p=0.95)], min_length=1)
    """Decodings. Each trained model generates texts with each of them."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the generated texts, as for nextword evaluate. They may be changed after the comparison has
    finished."""

    def texts(self) -> Texts | None:
        """The decodings and metrics of a comparison's texts; ``None`` if no texts are generated."""
        return self.texts_after("") if self.prompts else None


class StoriesConfig(WindowConfig):
    """Settings of the task; ``data`` is required."""

    data: str
    """A .jsonl file, a folder with train, validation and test files (.jsonl, or WritingPrompts' .wp_target), or plain
    text with one story per line or stories separated by blank lines."""
    story_field: str = "story"
    """Field with the story."""
    split_field: str | None = None
    """Field with the split: train, validation or test; none: the stories of one file are split by a hash."""
    validation_share: float = Field(default=0.05, gt=0, lt=0.5)
    """Fraction of the stories used for validation if the data has no split."""
    test_share: float = Field(default=0.05, gt=0, lt=0.5)
    """Fraction of the stories used for testing if the data has no split. The remaining stories are training data."""
    seed: Seed = 0
    """Seed of the split by hash."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; none: train a byte-level BPE on the training stories."""
    vocabulary: int = Field(default=8000, ge=258)
    """Vocabulary size of the trained BPE."""
    cache: str | None = None
    """Folder for trained tokenizers; none: train one in each run (seconds)."""
    block: int = Field(default=512, ge=2)
    """Tokens of one training row."""
    window: int = Field(default=512, ge=2)
    """Tokens per window in measurements; at most the model's maximum."""
    stride: int = Field(default=256, ge=1)
    """New tokens scored in each window after the first."""
    generation: StoryWritingConfig = StoryWritingConfig()
    """Texts that every method generates."""
    start: Gpt2StartConfig = Gpt2StartConfig()
    """The small initial model, used if no pretrained model is given."""


@registry.register("continue")
class StoryContinuation(WindowTask):
    """Story continuation: models continue the beginnings of test stories. See docs/tasks/continue.md."""

    name = "continue"
    version = 1
    Config = StoriesConfig
    # for the small model on two CPU cores; a pretrained model has the learning rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 200, "batch_size": 4, "learning_rate": 1e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: StoryBlocks

    def __init__(self, config: StoriesConfig) -> None:
        stories = read_stories(Path(config.data), config)
        super().__init__(
            config,
            StoryBlocks(stories, config),
            lambda: "\n".join(stories.train),
            test=lambda tokenizer, limit: story_stream(tokenizer, stories.test, limit),
            validation=lambda tokenizer, limit: story_stream(tokenizer, stories.validation, limit),
            longest=config.generation.continuation,
        )

    def _written_lengths(self) -> dict[str, int]:
        generation = self.config.generation
        return {"generation: 1 + prefix + continuation": 1 + generation.prefix + generation.continuation}

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        generation = self.config.generation
        sizes = (generation.prompts, generation.prefix, generation.continuation)
        return {"": story_prompts(tokenizer, self.data.stories.test, *sizes)}


class StoryBlocks(TextBlocks):
    """Concatenated stories as training blocks."""

    def __init__(self, stories: StoryParts, config: StoriesConfig) -> None:
        super().__init__(config.block)
        self.stories = stories

    def describe(self) -> dict[str, int | float | str]:
        """Stories per split, kind of split, checksum, and the number of test stories that are in the training data."""
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

    def token_stream(self, tokenizer: PreTrainedTokenizerBase, part: str) -> tuple[list[int], str]:
        """The ids of a split's stories (``story_ids``), and the split's name in messages."""
        name = "the training stories" if part == "train" else "the validation stories"
        return story_ids(tokenizer, getattr(self.stories, part)), name

    def test_text(self) -> str:
        """All test stories, as one text."""
        return "\n".join(self.stories.test)


# -- Stories in three splits, from JSON lines, plain text, or the files of WritingPrompts.

TARGETS = ".wp_target"
"""Ending of WritingPrompts' files (Fan et al., 2018), with one story per line."""
LINE_END = "<newline>"
"""Placeholder for a newline in the files of WritingPrompts."""
WHERE = "task.data"
"""Name of the setting in messages."""

WANTED = (
    f"a .jsonl file, a folder with train.jsonl, validation.jsonl and test.jsonl, one with train{TARGETS}, "
    f"valid{TARGETS} and test{TARGETS}, or plain text with one story per line or stories separated by blank lines"
)


@dataclass(frozen=True)
class StoryParts:
    """Stories of each split, their source, the kind of split, and the number of stories without words."""

    train: list[str]
    validation: list[str]
    test: list[str]
    source: str
    split: str
    empty: int

    @property
    def sha256(self) -> str:
        """Checksum over all stories in order."""
        parts = ("\0".join(stories) for stories in (self.train, self.validation, self.test))
        return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()


def read_stories(path: Path, reading: StoriesConfig) -> StoryParts:
    """Read the stories of ``path``: a folder with one file per split, or one file.

    Stories without a split are split by a hash of their text. If only the validation split is missing, the same hash
    selects a share of the training stories for it.

    Raises:
        ValueError: If there are no files, a split has no stories, or a line is wrong (the message names the line).
    """
    if not path.exists():
        raise ValueError(f"{WHERE}: '{path}' does not exist. Give {WANTED}.")
    files: list[tuple[str | None, Path]] = [(None, path)]
    if not path.is_file():
        files = [(part, file) for part in PARTS for file in _files_of(path, part)]
        if not files:
            raise ValueError(f"{WHERE}: '{path}' must have files of stories (none found). Give {WANTED}.")
    field = reading.split_field
    named = [
        (part or (None if line is None or field is None else part_named(line, field)), story)
        for part, one in files
        for line, story in _stories(one, reading)
    ]
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    told = any(part is not None for part, _ in named)
    for part, story in named:
        if story.strip():
            parts[part or _dealt(story, reading, reading.test_share)].append(story)
    shares = (1 - (reading.validation_share + reading.test_share), reading.validation_share, reading.test_share)
    dealt_out = f"by a hash of the story, {'/'.join(f'{100 * share:g}' for share in shares)} %"
    split = "parts named in the data" if told else dealt_out
    if told and not parts["validation"]:
        dealt = [(_dealt(story, reading, test_share=0.0), story) for story in parts["train"]]
        for part in ("train", "validation"):
            parts[part] = [story for name, story in dealt if name == part]
        split += f", {100 * reading.validation_share:g} % of the training stories for validation by a hash"
    for part, stories in parts.items():
        if not stories:
            sizes = ", ".join(f"{len(of)} {name}" for name, of in parts.items())
            raise ValueError(
                f"{WHERE}: '{path}' gives no {part} stories ({sizes}; split: {split}). Give more stories, larger "
                f"task.validation_share and task.test_share, or {WANTED}."
            )
    return StoryParts(**parts, source=path.name, split=split, empty=len(named) - sum(map(len, parts.values())))


def _files_of(folder: Path, part: str) -> list[Path]:
    targets = [folder / f"{word}{TARGETS}" for word in PARTS[part]]
    return [file for file in targets if file.is_file()] or part_files(folder, part, WHERE)


def _stories(file: Path, reading: StoriesConfig) -> Iterator[tuple[JsonLine | None, str]]:
    if file.name.endswith(TARGETS):
        for _, line in numbered_lines(file, WHERE):
            yield None, re.sub(rf" ?{LINE_END} ?", "\n", line).strip("\r\n")
        return
    cut = None if is_json_lines(file) else plain_text_of(file)
    if cut is None:
        for row in json_lines(file, WHERE, skip_empty=True):
            yield row, texts_at(row, (reading.story_field,), "task.story_field")[0]
        return
    text = "".join(line for _, line in numbered_lines(file, WHERE))
    for story in re.split(r"\n\s*\n" if cut == "blocks" else r"\n", text):
        yield None, story.strip("\r\n")


def _dealt(story: str, reading: StoriesConfig, test_share: float) -> str:
    return part_by_hash(story, reading.seed, reading.validation_share, test_share)


# -- Stories as tokens: concatenated, or each as a prompt with its human reference.


def end_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Id of the token that ends a story: the tokenizer's eos token, or its bos token if it has no eos token."""
    return start_id(tokenizer) if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)


def story_ids(tokenizer: PreTrainedTokenizerBase, stories: Iterable[str]) -> list[int]:
    """Token ids of the concatenated stories: a start token, a story, an end token, and so on.

    If start token and end token are the same token, as in GPT-2, this token occurs only once between two stories.
    """
    start, end = start_id(tokenizer), end_id(tokenizer)
    before = [] if start == end else [start]
    ids = [start, *(token for story in stories for token in (*before, *token_ids(tokenizer, story), end))]
    return ids[len(before) :]


def story_stream(tokenizer: PreTrainedTokenizerBase, stories: Iterable[str], limit: int | None) -> TokenStream:
    """The ids of ``story_ids``, and for each id after the first its number of bytes: 0 for start and end tokens.

    Stories are read only until there are ``limit`` tokens after the first; None: all stories.
    """
    start, end = start_id(tokenizer), end_id(tokenizer)
    before = [] if start == end else [start]
    ids, text_bytes = [start], [0]
    for story in stories:
        found, covered = ids_and_bytes(tokenizer, story)
        ids += [*before, *found, end]
        text_bytes += [*(0 for _ in before), *covered.tolist(), 0]
        if limit is not None and len(ids) > limit + len(before):
            break
    first = len(before)
    stop = None if limit is None else first + 1 + limit
    return TokenStream(np.array(ids[first:stop]), np.array(text_bytes[first + 1 : stop], dtype=np.int64))


def story_prompts(
    tokenizer: PreTrainedTokenizerBase, stories: Iterable[str], count: int, prefix: int, longest: int
) -> list[Prompt]:
    """Makes up to ``count`` prompts, each from the first ``prefix`` tokens of a story.

    Stories without more than ``prefix`` tokens are skipped. The human reference (``Prompt.target``) is the next
    ``longest`` tokens of the story, or its whole rest and an end token if the rest is not longer.

    Raises:
        ValueError: If no story has more than ``prefix`` tokens.
    """
    prompts: list[Prompt] = []
    for story in stories:
        if len(prompts) == count:
            break
        ids, text_bytes = ids_and_bytes(tokenizer, story)
        if len(ids) <= prefix:
            continue
        rest = slice(prefix, prefix + longest)
        ended = [end_id(tokenizer)] if len(ids) <= prefix + longest else []
        context = [start_id(tokenizer), *ids[:prefix]]
        prompts.append(Prompt(context, [*ids[rest], *ended], int(text_bytes[rest].sum()), len(prompts), start=1))
    if not prompts:
        raise ValueError(
            f"task.generation.prefix: must be shorter than some test story ({prefix} tokens given); give a shorter one"
        )
    return prompts
