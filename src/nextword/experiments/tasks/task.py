"""The base class of tasks: data, an initial model, measurements and, optionally, text generation.

docs/add-a-task.md shows a complete example.
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


# -- The two architectures of language models, and how a task and a training distinguish them.


@dataclass(frozen=True)
class Architecture:
    """A kind of model, decoder-only or encoder-decoder. Each task names the architecture of its models."""

    name: str
    auto_class: str
    """Name of the transformers class that builds and loads such models."""
    has_encoder: bool
    """Whether ``input_ids`` are a source for the encoder and ``labels`` a target with its own length. Otherwise there
    is one label per input id."""

    def new(self, config: PretrainedConfig) -> PreTrainedModel:
        """Make a model with random weights. ValueError if it does not fit into memory."""
        from nextword.runtime.weights import built

        model: PreTrainedModel = built(lambda: self._class().from_config(config), "task.start")
        return model

    def load(self, source: str, **kwargs: Any) -> PreTrainedModel:
        """Load a pretrained model from a folder, a GGUF file or the hub."""
        model: PreTrainedModel = from_pretrained(self._class(), source, **kwargs)
        return model

    def _class(self) -> Any:
        import transformers

        return getattr(transformers, self.auto_class)


DECODER_ONLY = Architecture("a decoder-only model", "AutoModelForCausalLM", has_encoder=False)
ENCODER_DECODER = Architecture("an encoder-decoder model", "AutoModelForSeq2SeqLM", has_encoder=True)


def architecture_of(config: PretrainedConfig) -> Architecture:
    """The architecture of the model that ``config`` describes."""
    return ENCODER_DECODER if getattr(config, "is_encoder_decoder", False) else DECODER_ONLY


def location_of(name: str, setting: str) -> str | Path:
    """``model_location(name)``; an error names ``setting``, the setting that chose the model."""
    try:
        return model_location(name)
    except ValueError as problem:
        raise ValueError(f"{setting}: {problem}") from None


def saved_model(name: str, setting: str, advice: str) -> tuple[str | Path, PretrainedConfig]:
    """Location and configuration of the saved model ``name``, of nextword or transformers.

    Raises:
        ValueError: If the model does not exist or cannot be read. The message names ``setting``, the setting that chose
            the model, and for an unreadable model includes ``advice``.
    """
    from transformers import AutoConfig

    location = location_of(name, setting)
    with unreadable_explained(name, setting, f" {advice}"):
        return location, from_pretrained(AutoConfig, location)


def expect_positions(config: PretrainedConfig, sizes: Mapping[str, int]) -> None:
    """Raise ValueError if the model has fewer positions than a value of ``sizes``, whose keys are names of settings."""
    limit = getattr(config, "max_position_embeddings", None)
    for name, size in sizes.items():
        if limit is not None and size > limit:
            raise ValueError(f"task.{name}: must be at most {limit}, the positions of the start model ({size} given)")


# -- The base class of tasks and its parts.


class Data(ABC):
    """Data of a task: training and validation rows, and their description.

    The rows have columns ``input_ids`` and ``labels`` (not shifted, -100 is ignored). Rows may have different lengths.
    For a decoder-only model there is one label per input id. For an encoder-decoder model ``input_ids`` are the source
    and ``labels`` the target. Data with auxiliary texts also has ``aux_input_ids`` (tokens of the encoder),
    ``source_ids`` (the same text as tokens of the model) and ``source_positions`` (position of each source id among the
    auxiliary tokens).
    """

    @abstractmethod
    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, number of leaks (test examples that are in the training data), sources and checksums."""

    def counts(self) -> dict[str, int]:
        """Further counts for the results, such as the numbers of words and articles; a mapping from name to count.

        A comparison that resumes in its folder requires equal values of ``describe``, but not equal counts, so later
        versions may add counts.
        """
        return {}

    @abstractmethod
    def training(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        """Return the training rows.

        Returns:
            A ``datasets.Dataset``, or an object with ``column_names``, ``__len__``, ``__getitem__`` by index, and
            ``set_epoch``, which is called before each epoch.
        """

    @abstractmethod
    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        """Return the validation rows, in the format of ``training``."""

    def encoder(self) -> str | None:
        """Folder or hub name of the encoder of the auxiliary texts. ``None`` if there are no auxiliary texts.

        Raises:
            ValueError: If there are auxiliary texts but no encoder.
        """
        return None

    def test_text(self) -> str | None:
        """All test data as one text, for metrics that compare generated texts with it. ``None`` if not available."""
        return None


@dataclass(frozen=True)
class Pretraining:
    """How the small initial model that all methods share is trained from random weights, with the objective ``mle``."""

    model_config: PretrainedConfig
    dataset: Dataset
    """Training rows, in the format of ``Data.training``."""
    settings: dict[str, Any]
    """``steps``, ``batch_size`` and ``learning_rate``."""


class Start(ABC):
    """The tokenizer and the small initial model of a task, used if no pretrained model is given."""

    tokens: tuple[str, ...] = ()
    """Texts that must be single tokens. They are added to a pretrained model's tokenizer that lacks them."""

    @abstractmethod
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that the settings name, or one made from the data."""

    @abstractmethod
    def pretraining(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Pretraining:
        """The small model's configuration, training rows and training settings."""

    def probe(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """Measure what the initial model, small or pretrained, knows. The results are stored with the model."""
        return {}

    def knows_enough(self, probe: dict[str, MetricValue]) -> bool:
        """Whether the small initial model has been trained enough; if not, it is trained for another round.

        ``probe`` has the values that the method ``probe`` returned for this model.
        """
        return True


class Measures(ABC):
    """Measurements of a trained model."""

    @abstractmethod
    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """Make all measurements on the test split. ``progress`` is called with the finished share, 0 to 1."""

    def tune(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Choose settings of the head on validation data, set them in ``model``, and return them; {} if none."""
        return {}


class Writes(ABC):
    """Text generation of a task. Each method of a comparison generates texts after its model was measured."""

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
        """Generate texts and write them atomically to samples files (docs/file-formats.md).

        All methods must get the same prompts in the same order.

        Args:
            model: A trained model.
            tokenizer: The model's tokenizer.
            files: A mapping from output file to the decoding and seed of its texts.
            arguments: Arguments of ``generate`` that are part of the method.
            progress: Function that receives the finished share, from 0 to 1.
        """


class Task(ABC):
    """A task: its config, data, initial model, measurements and text generation."""

    name: ClassVar[str]
    """Registered name."""
    version: ClassVar[int]
    """Version of the task. Increase it when examples or metrics change, so that old results are not compared with new
    ones."""
    Config: ClassVar[type[BaseModel]]
    architecture: ClassVar[Architecture] = DECODER_ONLY
    """Architecture that this task needs. A model of another architecture raises an error."""
    may_change: ClassVar[frozenset[str]] = frozenset()
    """Settings that may change after a comparison has finished, because they affect only metrics of generated texts."""
    training_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Training settings of a method on the small initial model (``steps``, ``batch_size``, ...). For a pretrained
    model, learning rates and warm-up come from ``FineTuning``."""

    config: Any
    data: Data
    start: Start
    measures: Measures
    writes: Writes | None = None

    @abstractmethod
    def __init__(self, config: Any) -> None:
        """Read the data, and set ``config``, ``data``, ``start``, ``measures`` and, to generate texts, ``writes``."""

    def check(self, model_config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> None:  # noqa: B027
        """Raise ValueError if this task cannot use an initial model with ``model_config`` and ``tokenizer``."""


registry: Registry[type[Task]] = Registry("task", Task)
