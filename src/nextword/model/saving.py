"""Saves models: a short card for ``save_pretrained``, and complete folders written atomically."""

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
"""File name of the model card on the Hub."""

_CONFIGURATION = "config.json"  # a folder without this file is not a model


def write_missing_card(model: WrappedModel, folder: Path) -> None:
    """Writes a short model card into ``folder``, unless there is one, or only an adapter of ``model`` was saved."""
    is_adapter = getattr(model, "_hf_peft_config_loaded", False)  # then the adapter was saved, and no model
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
    """Writes a model with its tokenizer and model card into a folder, in the format of the Hub.

    Files are first written to a temporary folder next to ``path`` and then moved, ``config.json`` last. So a killed
    save leaves the old model, or a folder that ``nextword.load`` rejects. A model and a model card in ``path`` are
    replaced; other files stay.

    Args:
        model: The model.
        tokenizer: Tokenizer of the model.
        path: Target folder, which is created if it is missing.
        facts: Content of the model card.
        auxiliary_tokenizer: Tokenizer of auxiliary texts, written to the subfolder ``encoder_tokenizer``; None: no
            auxiliary texts.
        write: Function that writes the model to a folder; None: the model's ``save_pretrained``.

    Raises:
        DiskFullError: If there is not enough disk space.
    """
    folder = Path(path).resolve()
    new = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(new, ignore_errors=True)  # left by an earlier save that was killed
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
    for weights in folder.glob("model*.safetensors*"):  # old files with other names would be read instead of the new
        weights.unlink()
    for file in sorted(files, key=lambda file: file.name == _CONFIGURATION):
        place = folder / file.relative_to(new)
        place.parent.mkdir(exist_ok=True)
        os.replace(file, place)
