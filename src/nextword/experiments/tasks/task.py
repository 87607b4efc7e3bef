"""What a task is: data, a start, measures and, where methods write texts, how. It knows nothing of how models train.

docs/add-a-task.md shows a complete one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from nextword.experiments.tasks.writing import SeededDecoding, Texts
from nextword.inference.scoring.opened_model import Progress
from nextword.runtime.pretrained import from_pretrained, model_location, unreadable_explained
from nextword.settings.registry import Registry

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel
    from nextword.results.records import Evaluation, MetricValue


# -- The two architectures of language models, and what a task and a training must know to tell them apart.


@dataclass(frozen=True)
class Architecture:
    """One of the two, as a person calls it with its article; tasks name the one whose models they train."""

    name: str
    auto_class: str
    """The class of transformers that builds and loads such models."""
    has_encoder: bool
    """Whether ``input_ids`` are a source that an encoder reads, and ``labels`` a target of its own length; otherwise
    labels stand beside the input ids, one for one."""

    def new(self, config: PretrainedConfig) -> PreTrainedModel:
        """A model with random weights; ValueError where it would not fit into memory."""
        from nextword.runtime.weights import built

        model: PreTrainedModel = built(lambda: self._class().from_config(config), "task.start")
        return model

    def load(self, source: str, **kwargs: Any) -> PreTrainedModel:
        """A pretrained model, from a folder, a GGUF file or the hub."""
        model: PreTrainedModel = from_pretrained(self._class(), source, **kwargs)
        return model

    def _class(self) -> Any:
        import transformers

        return getattr(transformers, self.auto_class)


DECODER_ONLY = Architecture("a decoder-only model", "AutoModelForCausalLM", has_encoder=False)
ENCODER_DECODER = Architecture("an encoder-decoder model", "AutoModelForSeq2SeqLM", has_encoder=True)


def architecture_of(config: PretrainedConfig) -> Architecture:
    """The architecture of the model that a configuration describes."""
    return ENCODER_DECODER if getattr(config, "is_encoder_decoder", False) else DECODER_ONLY


def saved_model(name: str, setting: str, advice: str) -> tuple[str | Path, PretrainedConfig]:
    """Where a saved model lies, ours or any of transformers, and its configuration.

    Raises:
        ValueError: There is none; says the setting that names it, and gives advice.
    """
    from transformers import AutoConfig

    try:
        location = model_location(name)
    except ValueError as problem:
        raise ValueError(f"{setting}: {problem}") from None
    with unreadable_explained(name, setting, f" {advice}"):
        return location, from_pretrained(AutoConfig, location)


def expect_positions(config: PretrainedConfig, sizes: Mapping[str, int]) -> None:
    """Raises ValueError where a model has fewer positions than ``sizes``: tokens to see at once, by setting."""
    limit = getattr(config, "max_position_embeddings", None)
    for name, size in sizes.items():
        if limit is not None and size > limit:
            raise ValueError(f"task.{name} ({size}) is longer than the {limit} positions of the start model")


# -- What a task is.


class Data(ABC):
    """Rows to train on, and what they are made of.

    Training and validation rows have columns ``input_ids`` and ``labels`` (unshifted, -100 ignored), of varying length.
    For a decoder-only model each label stands beside its input id; for an encoder-decoder model ``input_ids`` are the
    source and ``labels`` the target. Data with auxiliary texts also has ``aux_input_ids`` (tokens of the encoder),
    ``source_ids`` (the same text in tokens of the model) and ``source_positions`` (for each of those its place among
    the auxiliary tokens).
    """

    @abstractmethod
    def describe(self) -> dict[str, int | float | str]:
        """Sizes, how the data is split, what leaks (a number), sources and checksums."""

    def counts(self) -> dict[str, int]:
        """More numbers for the results, such as words and articles.

        Unlike ``describe`` they do not say whose a folder is, so more may be counted later.
        """
        return {}

    @abstractmethod
    def training(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        """The training rows.

        Returns:
            A ``datasets.Dataset``, or an object with ``column_names``, ``__len__``, ``__getitem__`` by number and
            ``set_epoch``, which is called before each pass over the data.
        """

    @abstractmethod
    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        """As ``training``, of the validation split."""

    def encoder(self) -> str | None:
        """Folder or hub name of the encoder that reads the auxiliary texts; ``None``: there are none.

        Raises:
            ValueError: There are auxiliary texts, and no encoder is there to read them.
        """
        return None

    def test_text(self) -> str | None:
        """The test data as one text, for measures that compare what was written with all of it; ``None``: none."""
        return None


@dataclass(frozen=True)
class Pretraining:
    """How to get the starting checkpoint that all methods share: random weights, trained with the plain likelihood."""

    model_config: PretrainedConfig
    dataset: Dataset
    """Columns as those of ``Data.training``."""
    settings: dict[str, Any]
    """``steps``, ``batch_size``, ``learning_rate``."""


class Start(ABC):
    """The tokenizer and the model that all methods begin from, where no pretrained ones are given."""

    tokens: tuple[str, ...] = ()
    """Texts that are one token each for every model of the task; a pretrained one gets those that it lacks."""

    @abstractmethod
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """A tokenizer made from the data."""

    @abstractmethod
    def pretraining(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Pretraining:
        """A small model and what it is trained on first."""

    def probe(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """What a start, a pretrained one too, already knows; measured once and stored beside the results."""
        return {}

    def knows_enough(self, probe: dict[str, MetricValue]) -> bool:
        """Whether a start that was probed so may be compared on; if not, it is trained for another round."""
        return True


class Measures(ABC):
    """What is measured of a trained model."""

    @abstractmethod
    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """All measurements on the test split. ``progress`` is called with the finished share, 0 to 1."""

    def tune(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Evaluation-time settings of a head, chosen on validation; the model is left with them. ``{}``: none."""
        return {}


class Writes(ABC):
    """The texts that every method writes after it was measured."""

    texts: Texts

    @abstractmethod
    def write(
        self,
        model: NextWordModel,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[Path, SeededDecoding],
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Writes samples files (docs/file-formats.md), each as a whole or not at all, drawn from its seed.

        All methods must be given the same prompts in the same order.

        Args:
            model: A trained model.
            tokenizer: Its tokenizer.
            files: What goes where; decodings are those of ``texts``.
            arguments: The method's own arguments of ``generate``.
            progress: Called with the finished share, 0 to 1.
        """


class Task(ABC):
    """One task with its own config, as the sum of its parts."""

    name: ClassVar[str]
    """As registered."""
    version: ClassVar[int]
    """Raised when examples or metrics change, so that numbers of two versions are never compared."""
    Config: ClassVar[type[BaseModel]]
    architecture: ClassVar[Architecture] = DECODER_ONLY
    """Architecture of the models it trains; others are refused."""
    may_change: ClassVar[frozenset[str]] = frozenset()
    """Settings that a finished comparison may change, since they only say how written texts are measured."""
    training_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """``steps``, ``batch_size``, ``learning_rate``, ``freeze_output_embeddings`` of a method's training from a small
    start; rates and warm-up of a pretrained one are those of ``FineTuning``."""

    config: Any
    data: Data
    start: Start
    measures: Measures
    writes: Writes | None = None

    @abstractmethod
    def __init__(self, config: Any) -> None:
        """Reads the data and sets the parts."""

    def check(self, model_config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> None:  # noqa: B027
        """Raises ValueError where this task cannot be measured on such a start, before anything is trained."""


registry: Registry[type[Task]] = Registry("task", Task)
