"""A model as a folder: what ``save_pretrained`` adds, and a folder written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nextword.conditioning.auxiliary_tokenizer import ENCODER_TOKENIZER
from nextword.model.card import CardFacts, card_text
from nextword.results.records import disk_full_explained, write_atomically

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.wrapped_model import WrappedModel

CARD = "README.md"
"""Where the Hub looks for the model card."""

_CONFIGURATION = "config.json"  # without this file a folder is not a model


def write_missing_card(model: WrappedModel, folder: Path) -> None:
    """A short model card in the folder of a saved model that has none."""
    is_adapter = getattr(model, "_hf_peft_config_loaded", False)  # then no model was saved, only what is beside it
    if not is_adapter and not (folder / CARD).exists():
        write_atomically(folder / CARD, card_text(model.config, CardFacts(), folder.resolve().name))


def save_model_folder(
    model: WrappedModel,
    tokenizer: PreTrainedTokenizerBase,
    path: str | os.PathLike[str],
    facts: CardFacts,
    auxiliary_tokenizer: PreTrainedTokenizerBase | None = None,
    write: Callable[[Path], object] | None = None,
) -> None:
    """Writes a model with all that is needed to use it, as the Hub understands it.

    Everything is written to a folder beside ``path`` first and then moved, ``config.json`` last. So a save that is
    killed leaves the old model, or a folder that ``nextword.load`` refuses. Other files in ``path`` stay; a model card
    there is replaced.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        path: Made where missing.
        facts: What the model card says.
        auxiliary_tokenizer: Tokenizer of auxiliary texts; goes into the folder ``encoder_tokenizer``.
        write: Writes the model itself to a folder; None: its own ``save_pretrained``.

    Raises:
        DiskFullError: There is no room for it.
    """
    folder = Path(path).resolve()
    new = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(new, ignore_errors=True)  # of a save that was killed
    with disk_full_explained(folder):
        try:
            (write or model.save_pretrained)(new)
            tokenizer.save_pretrained(new)
            if auxiliary_tokenizer is not None:
                auxiliary_tokenizer.save_pretrained(new / ENCODER_TOKENIZER)
            write_atomically(new / CARD, card_text(model.config, facts, folder.name))
            _move(new, folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _move(new: Path, folder: Path) -> None:
    files = [file for file in new.rglob("*") if file.is_file()]
    for file in files:
        with open(file, "rb") as written:
            os.fsync(written.fileno())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _CONFIGURATION).unlink(missing_ok=True)
    for weights in folder.glob("model*.safetensors*"):  # in other pieces than the new ones they would be read first
        weights.unlink()
    for file in sorted(files, key=lambda file: file.name == _CONFIGURATION):
        place = folder / file.relative_to(new)
        place.parent.mkdir(exist_ok=True)
        os.replace(file, place)
