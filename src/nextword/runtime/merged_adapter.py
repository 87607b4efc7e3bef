"""Opens peft adapters merged into the weights of their base model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nextword.runtime import optional_libraries as extras

SETTINGS = "adapter_config.json"
"""Name of the file that a folder with a peft adapter has."""


def is_adapter(path: str | Path) -> bool:
    """Whether a folder has a peft adapter, but no model."""
    folder = Path(path).expanduser()
    return (folder / SETTINGS).is_file() and not (folder / "config.json").is_file()


def model_of(path: str | Path) -> str | Path:
    """Folder or hub name of the base model of the adapter ``path``. Any other path is returned unchanged.

    Raises:
        ValueError: If the adapter does not name its base model.
    """
    if not is_adapter(path):
        return path
    base = json.loads((Path(path).expanduser() / SETTINGS).read_bytes()).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ValueError(f"{path}: the adapter does not name its base model; merge it into that model and save")
    return base


def from_adapter(
    kind: Any, folder: Path, open_model: Callable[..., Any], *, output_loading_info: bool = False, **kwargs: Any
) -> Any:
    """The result of ``kind.from_pretrained`` for an adapter's base model, with the adapter merged.

    A tokenizer in the adapter's folder takes precedence over that of the base model. ``open_model`` is called with
    ``kind``, the base model and ``kwargs``, to open the base model, its configuration or its tokenizer.

    Raises:
        ValueError: If the adapter does not name its base model, cannot be merged, or peft is missing. The function also
            raises transformers' errors for the base model.
    """
    from transformers import AutoConfig, AutoTokenizer

    base = model_of(folder)
    if kind is AutoTokenizer and (folder / "tokenizer_config.json").is_file():
        return kind.from_pretrained(folder, **kwargs)
    if kind in (AutoConfig, AutoTokenizer):
        return open_model(kind, base, **kwargs)
    if extras.missing(["peft"]):
        raise ValueError(f"{folder}: an adapter is read with peft, not installed here ({extras.install('lora')})")
    from peft import PeftModel

    model, info = open_model(kind, base, output_loading_info=True, **kwargs)
    trains = {name: weight.requires_grad for name, weight in model.named_parameters()}
    try:
        adapted: Any = PeftModel.from_pretrained(model, folder)
    except (OSError, ValueError, RuntimeError) as fault:
        said = " ".join(str(fault).split())[:200]
        raise ValueError(f"{folder}: the adapter does not fit its base model, {base} ({said})") from fault
    if not hasattr(adapted.base_model, "merge_and_unload"):
        raise ValueError(
            f"{folder}: must be an adapter that can be merged into its model, such as LoRA "
            f"({adapted.active_peft_config.peft_type.value} given)"
        )
    merged = adapted.merge_and_unload()
    for name, weight in merged.named_parameters():  # peft has frozen the weights of the model
        weight.requires_grad_(trains.get(name, weight.requires_grad))
    return (merged, info) if output_loading_info else merged
