"""What a task is: data in, training examples and measurements out; it knows nothing about how a model is trained.

Adding a task is one file here with a class under ``@registry.register("name")``, and its test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from nextword.decoding.strategies import Texts
from nextword.registry import Registry
from nextword.scoring.ask import Progress
from nextword.tasks.parts.architecture import DECODER_ONLY, Architecture

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

    from nextword.records import Evaluation, MetricValue


@dataclass(frozen=True)
class Start:
    """How to get the starting checkpoint that all methods share where the user gives no pretrained model.

    Attributes:
        model_config: Architecture; the model is built from it with random weights.
        dataset: What it is trained on with the plain likelihood; columns as those of ``Task.training``.
        settings: ``steps``, ``batch_size``, ``learning_rate`` of that training.
    """

    model_config: PretrainedConfig
    dataset: Dataset
    settings: dict[str, Any]


class Task(ABC):
    """One task with its own config.

    Attributes:
        name: The registered name.
        version: Raised when examples or metrics change, so that numbers of two versions are never compared.
        Config: What the user can set.
        architecture: That of the models it trains; others are refused.
        may_change: Settings that a finished comparison may change, since they only say how written texts are measured.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    Config: ClassVar[type[BaseModel]]
    architecture: ClassVar[Architecture] = DECODER_ONLY
    may_change: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def __init__(self, config: Any) -> None: ...

    @abstractmethod
    def describe(self) -> dict[str, int | float | str]:
        """Sizes, how the data is split, what leaks (a number), sources and checksums."""

    @abstractmethod
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """A tokenizer made from the data, for when no pretrained one is given."""

    @abstractmethod
    def start(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Start:
        """The common start for when no pretrained model is given."""

    def encoder(self) -> str | None:
        """Folder or hub name of the encoder that reads the auxiliary texts of this task's data; ``None``: it has none.

        Raises:
            ValueError: The data has auxiliary texts, and no encoder is there to read them.
        """
        return None

    @abstractmethod
    def training(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        """Columns ``input_ids`` and ``labels`` (unshifted, -100 ignored), of varying length.

        For a decoder-only model each label stands beside its input id; for an encoder-decoder model ``input_ids`` are
        the source and ``labels`` the target. Data with auxiliary texts also has ``aux_input_ids`` (tokens of the
        encoder), ``source_ids`` (the same text in tokens of the model) and ``source_places`` (for each of those its
        place among the auxiliary tokens).

        Returns:
            A ``datasets.Dataset``, or an object with ``column_names``, ``__len__``, ``__getitem__`` by number and
            ``set_epoch``, which is called before each pass over the data.
        """

    @abstractmethod
    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        """As ``training``, of the validation split."""

    @abstractmethod
    def training_defaults(self) -> dict[str, Any]:
        """``steps``, ``batch_size``, ``learning_rate``, ``freeze_output_embeddings`` of the fine-tuning."""

    @abstractmethod
    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """All measurements on the test split. ``progress`` is called with the finished share, 0 to 1."""

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Evaluation-time settings of a head, chosen on validation; the model is left with them. ``{}``: none."""
        return {}

    def texts(self) -> Texts | None:
        """Which texts every method writes; ``None``: none."""
        return None

    def test_text(self) -> str | None:
        """The test data as one text, for measures that compare what was written with all of it; ``None``: none."""
        return None

    def write(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[Path, Any],
        seed: int,
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Writes one samples file (docs/evaluate.md) for each decoding, each as a whole or not at all.

        All methods must be given the same prompts in the same order.

        Args:
            model: A trained model.
            tokenizer: Its tokenizer.
            files: What goes where; ways to write are those of ``texts``.
            seed: Of the tokens that are drawn; every file starts from it anew.
            arguments: The method's own arguments of ``generate``.
            progress: Called with the finished share, 0 to 1.
        """
        raise NotImplementedError(f"task '{self.name}' says that there are texts, but does not write them")

    def check_start(self, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> None:  # noqa: B027
        """Raises ValueError where this task cannot be measured on such a model, before anything is trained."""

    def probe_start(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """What the starting checkpoint already knows; measured once and stored beside the results."""
        return {}

    def knows_enough(self, probe: dict[str, MetricValue]) -> bool:
        """Whether a start that was probed so may be compared on; if not, it is trained for another round."""
        return True


registry: Registry[type[Task]] = Registry("task", Task)
