"""What tasks on pairs share: the pairs, and for encoder-decoder models rows, a small start and token ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from nextword.experiments.tasks.small_start import SmallStart, T5StartConfig
from nextword.experiments.tasks.task import ENCODER_DECODER, Data, Task, expect_positions
from nextword.experiments.tasks.tokenizers import expect_end, named_or_trained
from nextword.inference.scoring.likelihood import TokenPair
from nextword.inference.scoring.text_tokens import expect_offsets
from nextword.runtime.corpora import PARTS
from nextword.runtime.corpora.gap_sentences import MASK, GapConfig, Pair
from nextword.runtime.corpora.pairs import OtherFiles, PairReading, Side, leaks, read_pairs, sample
from nextword.settings.config import Seed, Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


# -- The pairs that a task uses: of each part at most so many, always the same ones for a seed.


class PairsConfig(Settings):
    """What can be set of pairs of a source and a target; ``data`` must be."""

    data: str
    """A .jsonl file, a folder with train, validation and test .jsonl files, or other files that the task can read."""
    source_field: str | None = "source"
    """Field of a JSON line that holds the source."""
    target_field: str | None = "target"
    """Field that holds the target."""
    split_field: str | None = None
    """Field of one .jsonl file that says train, validation or test; None: it is split by a hash of the source."""
    validation_share: float = Field(default=0.05, gt=0, lt=1)
    """Fraction of a single file used for validation."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Fraction used for testing; the rest is training data."""
    seed: Seed = 0
    """Seed of the split by hash, of the samples below and of random gaps."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Training pairs at most, a sample; None: all."""
    validation_pairs: int | None = Field(default=500, ge=1)
    """Validation pairs at most."""
    test_pairs: int | None = Field(default=1000, ge=2)
    """Test pairs at most."""
    tuning_pairs: int = Field(default=100, ge=1)
    """Validation pairs on which a cache's temperature and weight are chosen."""
    max_source_tokens: int = Field(default=256, ge=8)
    """Longer sources are cut off at the end."""
    max_target_tokens: int = Field(default=64, ge=8)
    """Longer targets are cut off at the end."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on the training pairs."""
    vocabulary: int = Field(default=8000, ge=258)
    """Tokens of the trained BPE."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Pairs at a time in measurements."""

    def samples(self, other: OtherFiles) -> PairSamples:
        """The pairs; ``other`` reads files that hold no JSON lines."""
        reading = PairReading(
            source=Side("source", self.source_field), target=Side("target", self.target_field),
            split_field=self.split_field, validation_share=self.validation_share, test_share=self.test_share,
            seed=self.seed, other=other,
        )  # fmt: skip
        return PairSamples(Path(self.data), reading, (self.train_pairs, self.validation_pairs, self.test_pairs))


class PairSamples:
    """Pairs in three parts, ``train``, ``validation`` and ``test``, each cut to a size; ``available`` has all.

    The seed of ``reading`` is that of the samples.
    """

    def __init__(self, path: Path, reading: PairReading, sizes: tuple[int | None, int | None, int | None]) -> None:
        self.reading = reading
        self.available = read_pairs(path, reading)
        self.train, self.validation, self.test = (
            sample(getattr(self.available, part), size, reading.seed) for part, size in zip(PARTS, sizes, strict=True)
        )

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksum, and how many test pairs have a side that training has too."""
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
    """Pairs that the start is trained on in place of the training pairs, and what the results say of them."""

    pairs: Sequence[Pair] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)


class PairRows(Data):
    """Sources as ``input_ids``, targets as ``labels``; a source that several people wrote of is a row for each.

    Args:
        pairs: The task's pairs, or what else has parts and describes itself.
        encoder: Makes what turns them into ids, by tokenizer.
        first: Pairs that the start alone is trained on; none: it is trained on the training pairs.
    """

    def __init__(
        self, pairs: Any, encoder: Callable[[PreTrainedTokenizerBase], Any], first: StartPairs | None = None
    ) -> None:
        self.pairs, self._encoder, self._first = pairs, encoder, first or StartPairs()

    def whole_text(self) -> str:
        """Everything that models are trained on."""
        return "\n".join(pair.text for pair in (*self._first.pairs, *self.pairs.train))

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksums, and how many test pairs have a source or target that training has too."""
        return {**self.pairs.describe(), **self._first.facts}

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training pairs."""
        return self._rows(self.pairs.train, tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The validation pairs."""
        return self._rows(self.pairs.validation, tokenizer)

    def start_rows(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """What the start is trained on."""
        return self._rows(self._first.pairs or self.pairs.train, tokenizer)

    def _rows(self, pairs: Sequence[Any], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        from datasets import Dataset

        encoded = self._encoder(tokenizer)([Pair(pair.source, text) for pair in pairs for text in pair.references])
        return Dataset.from_dict(
            {"input_ids": [pair.source.ids for pair in encoded], "labels": [pair.target.ids for pair in encoded]}
        )


# -- What tasks on pairs for encoder-decoder models share.


class PairTaskConfig(PairsConfig):
    """What can be set of every such task; ``data`` must be."""

    gaps: GapConfig = GapConfig()
    """How pairs are made of plain text."""
    mask: str | None = None
    """Text in place of the sentence taken out; None: the tokenizer's mask token (in T5's, <extra_id_0>)."""
    source_prefix: str = ""
    """Text before every source, for pretrained models that expect one, such as "summarize: "."""
    vocabulary: int = Field(default=8000, ge=259)
    """Tokens of the trained BPE."""
    frequent_words: int = Field(default=1000, ge=0)
    """Words outside this many most frequent words of the training targets count as rare."""
    start: T5StartConfig = T5StartConfig()
    """The start model where no pretrained one is given."""

    @model_validator(mode="after")
    def _sentences_in_order(self) -> Self:
        if self.gaps.min_sentences > self.gaps.max_sentences:
            raise ValueError(
                f"gaps.min_sentences ({self.gaps.min_sentences}) must not be more than gaps.max_sentences "
                f"({self.gaps.max_sentences})"
            )
        return self


class PairTask(Task):
    """Targets that encoder-decoder models write from sources; ``other`` reads data that is not a table."""

    architecture = ENCODER_DECODER
    # for the small start on two CPU cores; a pretrained one has the rates of FineTuning
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
        """The tokenizer must end sequences and mark gaps; the model must hold the lengths and begin targets."""
        expect_pair_model(model_config, self.config)
        test = self.pairs.test
        self._encoder(tokenizer)([next((pair for pair in test if MASK in pair.source), test[0])])

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        config = self.config
        return PairEncoder(
            tokenizer, config.max_source_tokens, config.max_target_tokens, config.source_prefix, config.mask
        )


def expect_pair_model(model_config: Any, config: Any) -> None:
    """Raises ValueError where an encoder-decoder model cannot begin targets, or cannot hold the task's lengths."""
    if all(getattr(model_config, name, None) is None for name in ("decoder_start_token_id", "bos_token_id")):
        raise ValueError(
            "the start model's config.json says neither decoder_start_token_id nor bos_token_id, so nobody knows "
            "what its targets begin with; set decoder_start_token_id (in T5 the padding token)"
        )
    names = ("max_source_tokens", "max_target_tokens")
    expect_positions(model_config, {name: getattr(config, name) for name in names})


# -- Pairs as token ids, cut to a length, with the text that the ids stand for.

SENTINEL = "<extra_id_0>"
"""What T5 has in place of a mask token."""


@dataclass(frozen=True)
class EncodedText:
    """Ids with the special tokens around them, the text that they cover, and where in it each id's text begins.

    ``starts`` has -1 at a special token.
    """

    ids: list[int]
    text: str
    starts: list[int]


@dataclass(frozen=True)
class EncodedPair:
    """Both sides of a pair."""

    source: EncodedText
    target: EncodedText

    @property
    def tokens(self) -> TokenPair:
        """What a model reads, and what it is asked for, the end of the sequence included."""
        return TokenPair(self.source.ids, self.target.ids, len(self.target.text.encode()))


class PairEncoder:
    """Turns pairs into ids.

    Args:
        tokenizer: The model's.
        longest_source: Tokens of a source at most, special ones counted; what is beyond is cut off at the end.
        longest_target: Tokens of a target at most.
        prefix: Text before every source.
        mask: Text for the gap of a source; None: the tokenizer's mask token.

    Raises:
        ValueError: The tokenizer has no end-of-sequence token, or cannot say which characters a token covers.
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
        """Token that fills; without effect, because masks leave it out."""
        # what the tokenizer itself puts around a text, and the end of the sequence where it puts none
        framed = tokenizer("a", return_special_tokens_mask=True)
        special, ids = framed["special_tokens_mask"], framed["input_ids"]
        self._before: list[int] = ids[: special.index(0)]
        self._after: list[int] = ids[len(special) - special[::-1].index(0) :]
        if self._after[-1:] != [end]:
            self._after = [*self._after, end]

    def __call__(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Both sides of each pair; ValueError where a source has a gap and there is no mask."""
        sources = [self.prefix + self._with_mask(pair.source) for pair in pairs]
        encoded = zip(
            self._encode(sources, self.longest[0]),
            self._encode([pair.target for pair in pairs], self.longest[1]),
            strict=True,
        )
        return [EncodedPair(source, target) for source, target in encoded]

    def visible_text(self, source: EncodedText) -> str:
        """A source's own text as far as a model sees it, without prefix and mask."""
        text = source.text.removeprefix(self.prefix)
        return text.replace(self.mask, " ") if self.mask else text

    def _with_mask(self, source: str) -> str:
        if MASK not in source:
            return source
        if self.mask is None:
            raise ValueError(
                f"task.mask: tokenizer '{self.tokenizer.name_or_path}' has no mask token; give the text that is to "
                f"stand in place of the sentence taken out, for instance task.mask='...'"
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
            # what a tokenizer drops at the end counts as covered: it was not cut off
            covered = text if len(ids) <= room else text[: max((end for _, end in offsets[:room]), default=0)]
            starts = [-1] * len(before) + [begin for begin, _ in offsets[:room]] + [-1] * len(after)
            framed.append(EncodedText([*before, *ids[:room], *after], covered, starts))
        return framed
