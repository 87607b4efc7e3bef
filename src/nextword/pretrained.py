"""Pretrained models and tokenizers, by folder or hub name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def model_location(path: str | Path) -> str | Path:
    """The folder of a saved model, or what may be the name of one on the hub.

    Costs nothing, so that a mistake is told before any library is imported.

    Raises:
        ValueError: A path where no folder is, or a folder without a model.
    """
    folder = Path(path).expanduser()
    if folder.exists():
        if not (folder / "config.json").is_file():
            raise ValueError(f"{folder}: no config.json in it, so this is no saved model (was saving interrupted?)")
        return folder
    if str(path).startswith(("/", ".", "~")):
        raise ValueError(f"{path}: no such folder")
    return path


def load_tokenizer(name: str, where: str) -> PreTrainedTokenizerBase:
    """The tokenizer of that folder or hub name.

    Args:
        name: The folder, or the name.
        where: The setting that names it, for messages.

    Raises:
        ValueError: There is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as fault:
        raise ValueError(f"{where}: cannot load '{name}': {' '.join(str(fault).split())}") from None
    return found
