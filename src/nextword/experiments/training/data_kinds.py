"""What kind of data a training has: each kind is read, trained on and measured by a task."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nextword.experiments.tasks import Task
from nextword.experiments.tasks.expand import Expand
from nextword.experiments.tasks.lm import LanguageModelling
from nextword.experiments.tasks.pair_measures import TargetLikelihood
from nextword.experiments.tasks.pair_task import PairRows, PairsConfig
from nextword.experiments.tasks.seq2seq import SequenceToSequence
from nextword.experiments.tasks.small_start import Gpt2StartConfig, SmallStart
from nextword.experiments.tasks.task import expect_positions
from nextword.experiments.tasks.tokenizers import expect_end, expect_offsets, named_or_trained
from nextword.experiments.training.train_config import TrainConfig
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.scoring.target_likelihood import TokenPair
from nextword.inference.scoring.text_tokens import start_id
from nextword.runtime.corpora.articles import STORIES
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.part_names import JSON_LINES, TABLES, is_saved_set, part_files, table_ending, text_files
from nextword.runtime.corpora.row_files import table_rows
from nextword.settings.config import validated
from nextword.settings.registry import did_you_mean

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


# -- Pairs for decoder-only models: the source as a prompt, which is not predicted, and the target after it.
#
#     {"source": "The river Aare rises in the Alps and flows through Bern.", "target": "The Aare flows through Bern."}
#
# A row is a start token, the source, the separator, the target and an end token.


class PromptedPairsConfig(PairsConfig):
    """What can be set; ``data`` must be."""

    separator: str = "\n"
    """Text between a source and its target, part of the prompt."""
    start: Gpt2StartConfig = Gpt2StartConfig()
    """The small model, where it is made here."""


class PromptEncoder:
    """Turns pairs into a prompt and a target.

    Raises:
        ValueError: The tokenizer has no end-of-sequence token, or cannot say which characters a token covers.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: PromptedPairsConfig) -> None:
        expect_offsets(tokenizer)
        self._tokenizer: Any = tokenizer
        self._config = config
        self._start, self._end = start_id(tokenizer), expect_end(tokenizer)
        self._separator = self._ids([config.separator])[0]

    @property
    def positions(self) -> int:
        """Tokens of the longest row."""
        return 1 + self._config.max_source_tokens + len(self._separator) + self._config.max_target_tokens

    def __call__(self, pairs: Sequence[Pair]) -> list[TokenPair]:
        """Both sides of each pair."""
        if not pairs:
            return []
        targets, sources = [pair.target for pair in pairs], self._ids([pair.source for pair in pairs])
        encoded = self._tokenizer(targets, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        room = self._config.max_target_tokens - 1
        tokens = []
        for source, target, ids, offsets in zip(
            sources, targets, encoded["input_ids"], encoded["offset_mapping"], strict=True
        ):
            # what a tokenizer drops at the end counts as covered: it was not cut off
            covered = target if len(ids) <= room else target[: max(end for _, end in offsets[:room])]
            context = [self._start, *source[: self._config.max_source_tokens], *self._separator]
            tokens.append(TokenPair(context, [*ids[:room], self._end], len(covered.encode())))
        return tokens

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return ids


class PromptedPairs(Task):
    """Targets written after their sources."""

    name = "prompted-pairs"
    version = 1
    Config = PromptedPairsConfig
    training_defaults: ClassVar[dict[str, Any]] = {}
    data: PromptedRows

    def __init__(self, config: PromptedPairsConfig) -> None:
        self.config = config
        self.pairs = config.samples(STORIES)
        self.data = data = PromptedRows(self.pairs, self._encoder)
        self.start = SmallStart(
            lambda: named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, self._encoder(tokenizer).positions),
            rows=lambda tokenizer, seed: data.training(tokenizer),
            training=config.start.training(),
        )
        self.measures = TargetLikelihood(self._tokens, config.batch_size, config.tuning_pairs)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The model's positions must hold a row."""
        longest = self._encoder(tokenizer).positions
        expect_positions(model_config, {"max_source_tokens + separator + task.max_target_tokens": longest})

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PromptEncoder:
        return PromptEncoder(tokenizer, self.config)

    def _tokens(self, tokenizer: PreTrainedTokenizerBase, part: str, count: int | None) -> list[TokenPair]:
        return self._encoder(tokenizer)(getattr(self.pairs, part)[:count])


class PromptedRows(PairRows):
    """Prompt and target as one row; labels are those of the target."""

    def _rows(self, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        from datasets import Dataset

        encoded = self._encoder(tokenizer)(pairs)
        return Dataset.from_dict(
            {
                "input_ids": [[*one.context, *one.target] for one in encoded],
                "labels": [[IGNORED_LABEL] * len(one.context) + one.target for one in encoded],
            }
        )


# -- What kind of data a training has.


TEXT, PAIRS, AUXILIARY = KINDS = ("text", "pairs", "auxiliary")
"""Running text; a source and a target; a text, and what an encoder reads beside it."""

TASKS: dict[tuple[str, bool], type[Task]] = {
    (TEXT, False): LanguageModelling,
    (PAIRS, False): PromptedPairs,
    (PAIRS, True): SequenceToSequence,
    (AUXILIARY, False): Expand,
}
"""By the kind, and whether the model is an encoder-decoder one."""

WRITES_NOTHING: dict[str, dict[str, Any]] = {AUXILIARY: {"generation": {"prompts": 0}}}
"""Settings of a task that writes texts otherwise: a training writes none."""

ALREADY_SET = {"data": "data.path", "encoder": "encoder"}
"""Settings of tasks that a training sets elsewhere."""


def data_task(config: TrainConfig, has_encoder: bool) -> Task:
    """The task that reads the data of a training, whose model has an encoder or not.

    Raises:
        ValueError: No such kind, none for such a model, a wrong setting, or data that cannot be read.
    """
    settings: dict[str, Any] = dict(config.data)
    path, kind = str(settings.pop("path")), settings.pop("kind", None)
    kind = _kind_of(config, path, has_encoder) if kind is None else kind
    if kind not in KINDS:
        near = did_you_mean(str(kind), KINDS)
        raise ValueError(f"data.kind: must be {', '.join(KINDS[:-1])} or {KINDS[-1]} ({kind!r} given).{near}")
    task = TASKS.get((kind, has_encoder))
    if task is None:
        raise ValueError(
            f"data.kind: '{kind}' is for decoder-only models, and {config.model} is an encoder-decoder model; "
            "take 'pairs', or another model"
        )
    if config.conditioner is not None and kind != AUXILIARY:
        raise ValueError(f"conditioner: reads an auxiliary text, and data of the kind '{kind}' has none")
    for name, instead in ALREADY_SET.items():
        if name in settings:
            raise ValueError(f"data.{name}: is set elsewhere; give {instead}=... in its place")
    if "generation" in settings and task is not SequenceToSequence:
        raise ValueError("data.generation: a training writes no texts; leave it out, and use 'nextword generate' later")
    settings |= {"data": path, **WRITES_NOTHING.get(kind, {})}
    if kind == AUXILIARY:
        settings["encoder"] = config.encoder
    elif config.encoder is not None:
        raise ValueError(f"encoder: reads auxiliary texts, and data of the kind '{kind}' has none; leave it out")
    with told_as_data():
        return task(validated(task.Config, settings, "data"))


@contextlib.contextmanager
def told_as_data() -> Iterator[None]:
    """Messages of tasks call their settings ``task.KEY``; those of a training are ``data.KEY``."""
    try:
        yield
    except ValueError as problem:
        text = re.sub(r"\btask\.data\b", "data.path", str(problem))
        text = re.sub(r"\btask\.encoder\b", "encoder", text)
        raise ValueError(re.sub(r"\btask\.(?=\w)", "data.", text)) from problem


def _kind_of(config: TrainConfig, path: str, has_encoder: bool) -> str:
    if config.conditioner is not None:
        return AUXILIARY
    if has_encoder:
        return PAIRS
    # neither method nor model says it: what the first row of the data has
    names = {str(config.data.get(f"{side}_field", side)) for side in ("source", "target")}
    first = _first_table(Path(path)) if "text_column" not in config.data else None
    rows = islice(table_rows(first, "data.path"), 1) if first is not None else ()
    return PAIRS if any(names <= row.content.keys() for row in rows) else TEXT


def _first_table(path: Path) -> Path | None:
    files = [path]
    if path.is_dir():
        kinds = (part_files(path, "train", "data.path", endings) for endings in (JSON_LINES, TABLES))
        files = text_files(path) if is_saved_set(path) else next(filter(None, kinds), [])
    return next((file for file in files if table_ending(file) is not None and file.is_file()), None)
