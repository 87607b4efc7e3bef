"""Makes padded batches of sequences, and encodes auxiliary texts once before training."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import TrainerCallback

from nextword.conditioning.auxiliary_encoder import fingerprint
from nextword.conditioning.auxiliary_tokenizer import FILL
from nextword.functional.padding import IGNORED_LABEL, padded, stacked
from nextword.runtime.devices import best_device

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.experiments.tasks import Data

logger = logging.getLogger(__name__)

COLUMN = "aux_input_ids"
"""Column with the ids of auxiliary texts."""
LIMIT = 2**30
"""Maximum size in bytes of all encoded states in memory."""
ROWS = 32
"""Number of auxiliary texts that the encoder reads at a time."""

Key = tuple[int, ...]
Stage = Callable[[], AbstractContextManager[Callable[[float], None]]]
"""A function that begins a stage, as a context manager which yields the stage's progress function."""


class EncodedTexts(dict[Key, Float[Tensor, "_ E"]]):
    """The states that a frozen encoder computed for texts, one per token. The key of a text is its token ids."""

    def of(self, ids: Sequence[Int[Tensor, "_"]]) -> list[Float[Tensor, "_ E"]] | None:
        """The states of each text, whose token ids are in ``ids``. None if one of the texts was not encoded."""
        states = [self.get(tuple(row.tolist())) for row in ids]
        return [row for row in states if row is not None] if all(row is not None for row in states) else None


def is_encodable(model: Any) -> bool:
    """Whether the model has an encoder of auxiliary texts, and this encoder is not trained."""
    encoder = getattr(model, "auxiliary_encoder", None)
    return encoder is not None and not any(parameter.requires_grad for parameter in encoder.parameters())


def distinct_texts(datasets: Iterable[Any]) -> list[Key]:
    """The distinct auxiliary texts (token ids) of ``datasets``, sorted by length and then by ids."""
    texts = {tuple(row) for dataset in datasets if COLUMN in dataset.column_names for row in _column(dataset)}
    return sorted(texts, key=lambda text: (len(text), text))


def _column(dataset: Any) -> Iterable[Sequence[int]]:
    if hasattr(dataset, "select_columns"):
        return (row[COLUMN] for row in dataset.select_columns(COLUMN).with_format(None))
    return (dataset[number][COLUMN] for number in range(len(dataset)))


@torch.no_grad()
def encode_texts(model: Any, texts: Sequence[Key], progress: Callable[[float], None]) -> EncodedTexts | None:
    """Encode distinct texts with a model's frozen encoder, on the model's device.

    The texts are always encoded in the same batches, so the states are reproducible to the last digit.

    Returns:
        The states. None if they would take more than ``LIMIT`` bytes; each training batch must then encode its texts.
    """
    width = model.auxiliary_encoder.config.hidden_size
    needed = 4 * width * sum(map(len, texts))
    if needed > LIMIT:
        logger.info("states of %d texts would take %.1f GiB; each batch is encoded anew", len(texts), needed / 2**30)
        return None
    model.eval()
    states = EncodedTexts()
    for begin in range(0, len(texts), ROWS):
        some = texts[begin : begin + ROWS]
        ids, mask = padded(some, FILL["aux_input_ids"])
        encoded = model.encode(ids.to(model.device), mask.to(model.device)).float().cpu()
        states.update({text: row[: len(text)].clone() for text, row in zip(some, encoded, strict=True)})
        progress(min(1.0, (begin + ROWS) / len(texts)))
    return states


class TaskRows:
    """The tokenized rows of a task, which are made when first used, and their encoded auxiliary texts."""

    def __init__(self, data: Data, tokenizer: PreTrainedTokenizerBase) -> None:
        self._data, self._tokenizer = data, tokenizer
        self._encoded: dict[str, EncodedTexts | None] = {}

    @cached_property
    def training(self) -> Any:
        """Training rows."""
        return self._data.training(self._tokenizer)

    @cached_property
    def validation(self) -> Any:
        """Validation rows."""
        return self._data.validation(self._tokenizer)

    def encoded(self, model: Any, with_validation: bool, stage: Stage) -> EncodedTexts | None:
        """States that the frozen encoder of ``model`` computes for the auxiliary texts of the training rows.

        With ``with_validation``, the validation rows are included. States are computed once for each encoder; ``stage``
        then shows the progress. None if there is no frozen encoder, or the states would take more than ``LIMIT`` bytes.
        """
        if not is_encodable(model):
            return None
        key = f"{fingerprint(model.auxiliary_encoder)} {with_validation}"
        if key not in self._encoded:
            with stage() as advanced:
                model.to(best_device())
                texts = distinct_texts([self.training, *([self.validation] if with_validation else [])])
                self._encoded[key] = encode_texts(model, texts, advanced)
        return self._encoded[key]


# -- Padded batches of sequences with different lengths.


@dataclass(frozen=True)
class Auxiliary:
    """Makes the inputs of a batch's auxiliary texts, for models with a conditioner. Other models get no such inputs.

    >>> Auxiliary()([{"aux_input_ids": [5, 6]}, {"aux_input_ids": [7]}])["aux_attention_mask"].tolist()
    [[1, 1], [1, 0]]
    """

    source: bool = False
    """Whether the batch also has the auxiliary text as decoder tokens, for heads that copy from this text."""
    encoded: EncodedTexts | None = None
    """Encoded states of auxiliary texts. A batch has them instead of token ids if all its texts are encoded."""

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Arguments of ``forward`` for B auxiliary texts of up to A tokens: ids (B, A) or states (B, A, E), and a mask.

        If ``source`` is set, there are also ``source_ids`` and ``source_positions`` (B, S).
        """
        rows = _batch_column(examples, "aux_input_ids")
        ids, mask = padded(rows, FILL["aux_input_ids"])
        states = self.encoded.of(rows) if self.encoded is not None else None
        batch: dict[str, Any] = {"aux_attention_mask": mask}
        batch |= {"aux_input_ids": ids} if states is None else {"aux_states": stacked(states, 0)}
        if self.source:
            for name in ("source_ids", "source_positions"):
                batch[name] = stacked(_batch_column(examples, name), FILL[name])
        return batch

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the data must have."""
        return ["aux_input_ids", *(["source_ids", "source_positions"] if self.source else [])]


@dataclass(frozen=True)
class RightPadding:
    """Collator that pads on the right: ids with ``pad_id``, labels with -100, and the mask with 0.

    >>> batch = RightPadding()([{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": [8], "labels": [8]}])
    >>> batch["input_ids"].tolist(), batch["labels"].tolist(), batch["attention_mask"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[-100, 6, 7], [8, -100, -100]], [[1, 1, 1], [1, 0, 0]])
    """

    pad_id: int = 0
    aligned: bool = True
    """Whether there is one label per input id, as for decoder-only models. The labels of encoder-decoder models are a
    separate sequence, padded to their own maximum length T' instead of T."""
    decoder_mask: bool = False
    """Whether the batch contains ``decoder_attention_mask``, which is 0 at padding of the labels. Only a backbone with
    stored states, which looks up rows by their tokens, needs this mask. In other backbones, padding has no effect,
    because only positions after the labels attend to it."""
    without_logits: bool = False
    """Whether the batch contains ``return_logits=False``, so that a nextword model returns a loss without computing
    (B, T, V) logits."""
    auxiliary: Auxiliary | None = None
    """Object that makes the batch's auxiliary inputs. None: the columns of auxiliary texts are dropped."""

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Make a (B, T) batch with maximum length T. ValueError if ``aligned`` and labels are not one per id."""
        ids, mask = padded(_batch_column(examples, "input_ids"), self.pad_id)
        labels, label_mask = padded(_batch_column(examples, "labels"), IGNORED_LABEL)
        batch: dict[str, Any] = {"input_ids": ids, "labels": labels, "attention_mask": mask}
        if self.aligned and any(len(example["input_ids"]) != len(example["labels"]) for example in examples):
            lengths = [(len(example["input_ids"]), len(example["labels"])) for example in examples]
            raise ValueError(f"labels: must be as many as input_ids (lengths (ids, labels) {lengths} given)")
        if self.decoder_mask:
            batch["decoder_attention_mask"] = label_mask
        if self.without_logits:
            batch["return_logits"] = False
        if self.auxiliary is not None:
            batch |= self.auxiliary(examples)
        return batch


def _batch_column(examples: Sequence[dict[str, Any]], name: str) -> list[torch.Tensor]:
    return [torch.as_tensor(example[name], dtype=torch.long) for example in examples]


# -- Data sets whose rows differ between epochs.


class EpochSetter(TrainerCallback):
    """Callback that calls ``set_epoch`` of the training data before each epoch.

    accelerate also calls ``set_epoch``, but not if a resumed training begins in the middle of an epoch, which would
    then have the rows of the first epoch. Worker processes are started anew in each epoch, so they get the number of
    the epoch.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Set the number of the epoch, from 0."""
        self._dataset.set_epoch(int(state.epoch))


class FixedDataset:
    """Wraps a validation set and hides its ``set_epoch``, so that accelerate does not change its epoch."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.column_names: list[str] = dataset.column_names

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]
