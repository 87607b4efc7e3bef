"""Sequences of different lengths become one padded batch; auxiliary texts are read once before."""

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
"""Column of the texts' ids."""
LIMIT = 2**30
"""Bytes of states that are kept in memory."""
ROWS = 32
"""Texts that are encoded together."""

Key = tuple[int, ...]
Stage = Callable[[], AbstractContextManager[Callable[[float], None]]]
"""Says that a stage begins and ends, and hands out the function that says how far it is."""


class EncodedTexts(dict[Key, Float[Tensor, "_ E"]]):
    """A frozen encoder's states of texts, one for each token, by the texts' ids."""

    def of(self, ids: Sequence[Int[Tensor, "_"]]) -> list[Float[Tensor, "_ E"]] | None:
        """The states of each text, or None where one of them was not encoded."""
        states = [self.get(tuple(row.tolist())) for row in ids]
        return [row for row in states if row is not None] if all(row is not None for row in states) else None


def is_encodable(model: Any) -> bool:
    """Whether the model has an encoder of auxiliary texts that training leaves as it is."""
    encoder = getattr(model, "auxiliary_encoder", None)
    return encoder is not None and not any(parameter.requires_grad for parameter in encoder.parameters())


def distinct_texts(datasets: Iterable[Any]) -> list[Key]:
    """The texts of data sets, each once, sorted by length and then by ids: whatever order the rows have."""
    texts = {tuple(row) for dataset in datasets if COLUMN in dataset.column_names for row in _column(dataset)}
    return sorted(texts, key=lambda text: (len(text), text))


def _column(dataset: Any) -> Iterable[Sequence[int]]:
    if hasattr(dataset, "select_columns"):
        return (row[COLUMN] for row in dataset.select_columns(COLUMN).with_format(None))
    return (dataset[number][COLUMN] for number in range(len(dataset)))


@torch.no_grad()
def encode_texts(model: Any, texts: Sequence[Key], progress: Callable[[float], None]) -> EncodedTexts | None:
    """Encodes distinct texts with a model's frozen encoder, on the model's device.

    The batches are always the same, so that the digits are.

    Returns:
        None where the states would take more than ``LIMIT``; the encoder then reads the texts of every batch.
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
    """The rows of a task in a tokenizer's tokens, made when they are first asked for, and their auxiliary texts."""

    def __init__(self, data: Data, tokenizer: PreTrainedTokenizerBase) -> None:
        self._data, self._tokenizer = data, tokenizer
        self._encoded: dict[str, EncodedTexts | None] = {}

    @cached_property
    def training(self) -> Any:
        """Rows to train on."""
        return self._data.training(self._tokenizer)

    @cached_property
    def validation(self) -> Any:
        """Rows for validation losses."""
        return self._data.validation(self._tokenizer)

    def encoded(self, model: Any, with_validation: bool, stage: Stage) -> EncodedTexts | None:
        """The encoder's states of all auxiliary texts, where it makes the same of them all through training.

        They are made once for each encoder, within ``stage``. None: there are none, or too many to keep.
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


# -- Sequences of different lengths become one padded batch.


@dataclass(frozen=True)
class Auxiliary:
    """The auxiliary text's part of a batch, for models with a conditioner; other models never see these columns.

    >>> Auxiliary()([{"aux_input_ids": [5, 6]}, {"aux_input_ids": [7]}])["aux_attention_mask"].tolist()
    [[1, 1], [1, 0]]
    """

    source: bool = False
    """Whether to pass on the text in the decoder's tokens as well, for heads that copy from it."""
    encoded: EncodedTexts | None = None
    """The encoder's states of texts, passed on in index of their ids where all of a batch are there."""

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Arguments of ``forward``: (B,A) ids or (B,A,E) states with their mask, and (B,S) the source."""
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
        """What the data must have for it."""
        return ["aux_input_ids", *(["source_ids", "source_positions"] if self.source else [])]


@dataclass(frozen=True)
class RightPadding:
    """Pads on the right: ids with ``pad_id``, labels with -100, and a mask that is 0 there.

    >>> batch = RightPadding()([{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": [8], "labels": [8]}])
    >>> batch["input_ids"].tolist(), batch["labels"].tolist(), batch["attention_mask"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[-100, 6, 7], [8, -100, -100]], [[1, 1, 1], [1, 0, 0]])
    """

    pad_id: int = 0
    aligned: bool = True
    """Whether each label stands beside an input id, as for decoder-only models. The labels of encoder-decoder models
    are a sequence of their own, padded to its own longest length T' in index of T."""
    without_logits: bool = False
    """Put ``return_logits=False`` into the batch: our models then return a loss without building (B,T,V)."""
    auxiliary: Auxiliary | None = None
    """Makes the auxiliary text's part of the batch; without it such columns are left out."""

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """One batch of (B,T) tensors, T the longest length; ValueError where aligned labels are not as many as ids."""
        ids, mask = padded(_batch_column(examples, "input_ids"), self.pad_id)
        labels = stacked(_batch_column(examples, "labels"), IGNORED_LABEL)
        batch: dict[str, Any] = {"input_ids": ids, "labels": labels, "attention_mask": mask}
        if self.aligned and any(len(example["input_ids"]) != len(example["labels"]) for example in examples):
            lengths = [(len(example["input_ids"]), len(example["labels"])) for example in examples]
            raise ValueError(f"labels: must be as many as input_ids (lengths (ids, labels) {lengths} given)")
        if self.without_logits:
            batch["return_logits"] = False
        if self.auxiliary is not None:
            batch |= self.auxiliary(examples)
        return batch


def _batch_column(examples: Sequence[dict[str, Any]], name: str) -> list[torch.Tensor]:
    return [torch.as_tensor(example[name], dtype=torch.long) for example in examples]


# -- Data sets that show other rows in each epoch.


class EpochSetter(TrainerCallback):
    """Calls ``set_epoch`` of the training data before each epoch is read.

    accelerate does so too, except in the rest of an epoch that a resumed training begins in the middle of: the rows
    would then be those of the first epoch. Worker processes are started when the epoch is read, so they know it.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tells the number of the epoch, from 0."""
        self._dataset.set_epoch(int(state.epoch))


class FixedDataset:
    """Data whose ``set_epoch`` nobody sees: accelerate would otherwise tell validation data how often it was read."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.column_names: list[str] = dataset.column_names

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]
