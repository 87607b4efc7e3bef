"""Code for tasks on pairs of source and target: reading pairs, making rows, and a small encoder-decoder model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from nextword.experiments.tasks.small_start import SmallStart, T5StartConfig
from nextword.experiments.tasks.task import ENCODER_DECODER, Data, Task, expect_positions
from nextword.experiments.tasks.tokenizers import expect_end, named_or_trained
from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.likelihood import TokenPair
from nextword.inference.scoring.text_tokens import expect_offsets
from nextword.runtime.corpora import PARTS
from nextword.runtime.corpora.gap_sentences import MASK, GapConfig, Pair
from nextword.runtime.corpora.pairs import OtherFiles, PairReading, Side, leaks, read_pairs, sample
from nextword.settings.config import Seed, Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


# -- The pairs that a task uses. Each split has a maximum number of pairs; the seed determines which ones are used.


class PairsConfig(Settings):
    """Settings of tasks on pairs of source and target; ``data`` is required."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files, or other files that the task reads."""
    source_field: str | None = "source"
    """Field with the source."""
    target_field: str | None = "target"
    """Field with the target."""
    split_field: str | None = None
    """Field of a .jsonl file with the split: train, validation or test; none: split by a hash of the source."""
    validation_share: float = Field(default=0.05, gt=0, lt=1)
    """Fraction of a single file's pairs for validation."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Fraction of a single file's pairs for testing. The remaining pairs are training data."""
    seed: Seed = 0
    """Seed of the split by hash, of sampled pairs, and of randomly removed sentences."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Maximum number of training pairs, sampled at random; none: all."""
    validation_pairs: int | None = Field(default=500, ge=1)
    """Maximum number of validation pairs."""
    test_pairs: int | None = Field(default=1000, ge=2)
    """Maximum number of test pairs."""
    tuning_pairs: int = Field(default=100, ge=1)
    """Number of validation pairs for choosing a cache's temperature and weight."""
    max_source_tokens: int = Field(default=256, ge=8)
    """Maximum tokens of a source. Longer sources are truncated at the end."""
    max_target_tokens: int = Field(default=64, ge=8)
    """Maximum tokens of a target. Longer targets are truncated at the end."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; none: train a byte-level BPE on the training pairs."""
    vocabulary: int = Field(default=8000, ge=258)
    """Vocabulary size of the trained BPE."""
    cache: str | None = None
    """Folder for trained tokenizers; none: train one in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Batch size of the measurements, in pairs."""

    def samples(self, other: OtherFiles) -> PairSamples:
        """Read the pairs; ``other`` reads files that are not tables."""
        reading = PairReading(
            source=Side("source", self.source_field), target=Side("target", self.target_field),
            split_field=self.split_field, validation_share=self.validation_share, test_share=self.test_share,
            seed=self.seed, other=other,
        )  # fmt: skip
        return PairSamples(Path(self.data), reading, (self.train_pairs, self.validation_pairs, self.test_pairs))


class PairSamples:
    """Pairs in three splits, ``train``, ``validation`` and ``test``, each of limited size, chosen from ``available``.

    ``reading.seed`` determines which of the available pairs are used.
    """

    def __init__(self, path: Path, reading: PairReading, sizes: tuple[int | None, int | None, int | None]) -> None:
        self.reading = reading
        self.available = read_pairs(path, reading)
        self.train, self.validation, self.test = (
            sample(getattr(self.available, part), size, reading.seed) for part, size in zip(PARTS, sizes, strict=True)
        )

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksum, and the number of test pairs whose source or target is in the training data."""
        available = self.available
        sizes: dict[str, int | float | str] = {}
        for part in PARTS:
            sizes[f"{part}_pairs"] = len(getattr(self, part))
            sizes[f"{part}_pairs_available"] = len(getattr(available, part))
        return {
            "source": available.source,
            "sha256": available.sha256,
            "split": available.split,
            **sizes,
            "empty_pairs_left_out": available.empty,
            **leaks(available.train, available.test, "leak", self.reading),
        }


# -- Pairs as training rows of an encoder-decoder model.


@dataclass(frozen=True)
class StartPairs:
    """Pairs for training the initial model instead of the training pairs, with their description for the results."""

    pairs: Sequence[Pair] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)


class PairRows(Data):
    """Rows with sources as ``input_ids`` and targets as ``labels``, one row per target.

    Args:
        pairs: The task's pairs, or another object with ``train``, ``validation`` and ``describe``.
        encoder: Function from a tokenizer to the object that tokenizes pairs.
        first: Pairs for training the initial model; None: the training pairs.
    """

    def __init__(
        self, pairs: Any, encoder: Callable[[PreTrainedTokenizerBase], Any], first: StartPairs | None = None
    ) -> None:
        self.pairs, self._encoder, self._first = pairs, encoder, first or StartPairs()

    def whole_text(self) -> str:
        """All training text."""
        return "\n".join(pair.text for pair in (*self._first.pairs, *self.pairs.train))

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksums, and the number of test pairs whose source or target is in the training data."""
        return {**self.pairs.describe(), **self._first.facts}

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Rows of the training pairs."""
        return self._rows(self.pairs.train, tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Rows of the validation pairs."""
        return self._rows(self.pairs.validation, tokenizer)

    def start_rows(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Rows for training the small initial model."""
        return self._rows(self._first.pairs or self.pairs.train, tokenizer)

    def _rows(self, pairs: Sequence[Any], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        from datasets import Dataset

        encoded = self._encoder(tokenizer)(with_each_reference(pairs))
        return Dataset.from_dict(
            {"input_ids": [pair.source.ids for pair in encoded], "labels": [pair.target.ids for pair in encoded]}
        )


def with_each_reference(pairs: Sequence[Any]) -> list[Pair]:
    """One pair of source and target for each reference of each pair."""
    return [Pair(pair.source, text) for pair in pairs for text in pair.references]


def source_prompts(pairs: Sequence[Any], encoded: Sequence[TokenPair], special: int = 0) -> list[Prompt]:
    """Prompts of pairs and their tokens, of which the first ``special`` are special tokens.

    Samples files show the whole source and all references.
    """
    return [
        Prompt(**vars(tokens), number=number, start=special, source=pair.source, references=pair.references)
        for number, (pair, tokens) in enumerate(zip(pairs, encoded, strict=True))
    ]


# -- Code shared by the tasks on pairs for encoder-decoder models.


class PairTaskConfig(PairsConfig):
    """Settings of all tasks on pairs for encoder-decoder models; ``data`` is required."""

    gaps: GapConfig = GapConfig()
    """How pairs are made from plain text, by removing sentences."""
    mask: str | None = None
    """Text that replaces the removed sentence; none: the tokenizer's mask token (for T5, <extra_id_0>)."""
    source_prefix: str = ""
    """Text before every source, for pretrained models that expect one, such as "summarize: "."""
    vocabulary: int = Field(default=8000, ge=259)
    """Vocabulary size of the trained BPE."""
    frequent_words: int = Field(default=1000, ge=0)
    """Number of most frequent words of the training targets. All other words count as rare."""
    start: T5StartConfig = T5StartConfig()
    """The small initial model, used if no pretrained model is given."""

    @model_validator(mode="after")
    def _sentences_in_order(self) -> Self:
        if self.gaps.min_sentences > self.gaps.max_sentences:
            raise ValueError(
                f"gaps.min_sentences: must be at most gaps.max_sentences, {self.gaps.max_sentences} "
                f"({self.gaps.min_sentences} given)"
            )
        return self


class PairTask(Task):
    """Base class of tasks on pairs for encoder-decoder models.

    ``other`` reads files that are not tables. ``start_pairs`` makes the pairs for training the small initial model.
    """

    architecture = ENCODER_DECODER
    # for the small model on two CPU cores; a pretrained model has the learning rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 300, "batch_size": 16, "learning_rate": 2e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: PairRows

    def __init__(
        self,
        config: PairTaskConfig,
        other: OtherFiles,
        start_pairs: Callable[[PairSamples], StartPairs] = lambda pairs: StartPairs(),
    ) -> None:
        self.config = config
        self.pairs = config.samples(other)
        self.data = data = PairRows(self.pairs, self._encoder, start_pairs(self.pairs))
        self.start = SmallStart(
            lambda: named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache, MASK),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, self._encoder(tokenizer).pad),
            rows=lambda tokenizer, seed: data.start_rows(tokenizer),
            training=config.start.training(),
        )

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that the tokenizer has end and mask tokens, and the model a start token and enough positions."""
        expect_pair_model(model_config, self.config)
        test = self.pairs.test
        self._encoder(tokenizer)([next((pair for pair in test if MASK in pair.source), test[0])])

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        config = self.config
        return PairEncoder(
            tokenizer, config.max_source_tokens, config.max_target_tokens, config.source_prefix, config.mask
        )


def expect_pair_model(model_config: Any, config: Any) -> None:
    """Raise ValueError if an encoder-decoder model has no start token for targets or too few positions."""
    if all(getattr(model_config, name, None) is None for name in ("decoder_start_token_id", "bos_token_id")):
        raise ValueError(
            "start.model: its config.json must have decoder_start_token_id or bos_token_id, the first token of "
            "targets (neither given); set decoder_start_token_id (in T5 the padding token)"
        )
    names = ("max_source_tokens", "max_target_tokens")
    expect_positions(model_config, {name: getattr(config, name) for name in names})


# -- Pairs as token ids, truncated to a maximum length, with the text of each token.

SENTINEL = "<extra_id_0>"
"""The token of T5 that serves as a mask token."""


@dataclass(frozen=True)
class EncodedText:
    """A text, its token ids including special tokens, and for each id the character at which it starts in the text.

    ``starts`` is -1 for a special token.
    """

    ids: list[int]
    text: str
    starts: list[int]


@dataclass(frozen=True)
class EncodedPair:
    """A tokenized pair of source and target."""

    source: EncodedText
    target: EncodedText

    @property
    def tokens(self) -> TokenPair:
        """The ids of the source and of the target, both with special tokens, and the number of bytes of the target."""
        return TokenPair(self.source.ids, self.target.ids, len(self.target.text.encode()))


class PairEncoder:
    """Tokenizes pairs.

    Args:
        tokenizer: The model's tokenizer.
        longest_source: Maximum tokens of a source, including special tokens. Longer sources are truncated at the end.
        longest_target: Maximum tokens of a target.
        prefix: Text before every source.
        mask: Text that replaces the sentence removed from a source; None: the tokenizer's mask token.

    Raises:
        ValueError: If the tokenizer has no end-of-sequence token, or gives no character offsets.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        longest_source: int,
        longest_target: int,
        prefix: str = "",
        mask: str | None = None,
    ) -> None:
        expect_offsets(tokenizer)
        end = expect_end(tokenizer)
        self.tokenizer = tokenizer
        self.longest = longest_source, longest_target
        self.prefix = prefix
        self.mask = mask or tokenizer.mask_token or (SENTINEL if SENTINEL in tokenizer.get_vocab() else None)
        self.pad = end if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)
        """Padding token. It has no effect, because padding is masked."""
        # special tokens that the tokenizer puts before and after a text; the end token is added if it puts none
        framed = tokenizer("a", return_special_tokens_mask=True)
        special, ids = framed["special_tokens_mask"], framed["input_ids"]
        self._before: list[int] = ids[: special.index(0)]
        self._after: list[int] = ids[len(special) - special[::-1].index(0) :]
        if self._after[-1:] != [end]:
            self._after = [*self._after, end]

    def __call__(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Tokenize pairs. ValueError if a sentence was removed from a source and there is no mask token."""
        sources = [self.prefix + self._with_mask(pair.source) for pair in pairs]
        encoded = zip(
            self._encode(sources, self.longest[0]),
            self._encode([pair.target for pair in pairs], self.longest[1]),
            strict=True,
        )
        return [EncodedPair(source, target) for source, target in encoded]

    def visible_text(self, source: EncodedText) -> str:
        """The part of a source that the model sees (the source may be truncated), without prefix and mask."""
        text = source.text.removeprefix(self.prefix)
        return text.replace(self.mask, " ") if self.mask else text

    def _with_mask(self, source: str) -> str:
        if MASK not in source:
            return source
        if self.mask is None:
            raise ValueError(
                f"task.mask: tokenizer '{self.tokenizer.name_or_path}' has no mask token; give a text that replaces "
                f"the removed sentence, for instance task.mask='...'"
            )
        return source.replace(MASK, self.mask)

    def _encode(self, texts: list[str], longest: int) -> list[EncodedText]:
        if not texts:
            return []
        before, after = self._before, self._after
        room = longest - len(before) - len(after)
        encoded: Any = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
        framed = []
        for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
            # if a text is not truncated, characters that the tokenizer drops at the end belong to it
            covered = text if len(ids) <= room else text[: max((end for _, end in offsets[:room]), default=0)]
            starts = [-1] * len(before) + [begin for begin, _ in offsets[:room]] + [-1] * len(after)
            framed.append(EncodedText([*before, *ids[:room], *after], covered, starts))
        return framed
