"""Opens the model to check: a model with a nextword head, or any other saved language model or peft adapter."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from nextword.model.attach import load
from nextword.model.configuration import NextWordConfig, NextWordSeq2SeqConfig
from nextword.runtime.merged_adapter import is_adapter
from nextword.runtime.pretrained import GgufError, from_pretrained, gguf_file, load_tokenizer, model_location
from nextword.settings.registry import UnknownNameError


def open_subject(path: str | Path) -> Any:
    """Open a model with a nextword head, or a plain transformers model, from a folder, GGUF file or hub name.

    If ``path`` is a folder with a peft adapter, the adapter is put on its base model.

    Raises:
        ValueError: If there is no model at ``path``, or if it is not a language model.
    """
    if is_adapter(path):
        return _with_adapter(str(Path(path).expanduser()))
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    location = model_location(path)
    try:
        config = from_pretrained(AutoConfig, location)
    except UnknownNameError as fault:
        raise UnknownNameError(f"{path}: {fault}") from None
    except GgufError:
        raise
    except (OSError, ValueError) as fault:
        raise ValueError(
            f"{path}: must be a model folder or a model on the hub ({_first_line(fault)}); give the path of a saved "
            "model, or its name on the hub"
        ) from fault
    if isinstance(config, NextWordConfig | NextWordSeq2SeqConfig):
        return load(location)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    try:
        return from_pretrained(kind, location, dtype="auto")
    except GgufError:
        raise
    except (OSError, ValueError) as fault:
        raise ValueError(f"{path}: cannot be opened as a language model ({_first_line(fault)})") from fault


_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
"""Tokenizer files. For a folder that has none of them, transformers would create an empty tokenizer."""


def tokenizer_of(path: str | Path) -> Any:
    """The tokenizer saved with the model at ``path``. None if there is none or, after a warning, on an error."""
    folder = Path(path).expanduser()
    if folder.is_dir() and gguf_file(folder) is None and not any((folder / name).is_file() for name in _TOKENIZERS):
        return None
    try:
        return load_tokenizer(str(folder) if folder.is_dir() else str(path), "check")
    except ValueError as fault:
        warnings.warn(f"the tokenizer of '{path}' cannot be read, so it is not checked: {fault}", stacklevel=3)
        return None


def _with_adapter(folder: str) -> Any:
    from nextword.runtime import optional_libraries as extras

    if extras.missing(["peft"]):
        raise ValueError(f"{folder}: needs peft to read the adapter, which is not installed ({extras.install('lora')})")
    from peft import PeftConfig, PeftModel

    try:
        base = PeftConfig.from_pretrained(folder).base_model_name_or_path
        return PeftModel.from_pretrained(open_subject(base), folder)
    except (OSError, ValueError) as fault:
        raise ValueError(f"{folder}: the model of the adapter cannot be opened ({_first_line(fault)})") from fault


def _first_line(fault: Exception) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0].strip()
