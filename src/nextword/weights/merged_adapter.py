"""Adapters of peft as the models that they make: merged into the weights of the model that they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nextword import optional_libraries as extras
from nextword.pretrained import TOKENIZER_SETTINGS, from_pretrained, model_of


def from_adapter(kind: Any, folder: Path, *, output_loading_info: bool = False, **kwargs: Any) -> Any:
    """What ``kind.from_pretrained`` gives of the model that an adapter belongs to, with the adapter merged into it.

    Args:
        kind: A class of transformers, such as ``AutoModelForCausalLM``.
        folder: Of the adapter; a tokenizer in it goes before that of the model.
        output_loading_info: As in transformers.
        **kwargs: Further arguments of ``kind.from_pretrained``.

    Raises:
        ValueError: The adapter does not say to which model it belongs, cannot be merged, or peft is missing. What
            transformers raises of the model.
    """
    from transformers import AutoConfig, AutoTokenizer

    base = model_of(folder)
    if kind is AutoTokenizer and (folder / TOKENIZER_SETTINGS).is_file():
        return kind.from_pretrained(folder, **kwargs)
    if kind in (AutoConfig, AutoTokenizer):
        return from_pretrained(kind, base, **kwargs)
    if extras.missing(["peft"]):
        raise ValueError(f"{folder}: an adapter is read with peft, not installed here ({extras.install('lora')})")
    from peft import PeftModel

    model, info = from_pretrained(kind, base, output_loading_info=True, **kwargs)
    try:
        adapted: Any = PeftModel.from_pretrained(model, folder)
    except (OSError, ValueError, RuntimeError) as fault:
        said = " ".join(str(fault).split())[:200]
        raise ValueError(f"{folder}: the adapter cannot be put on its model, {base} ({said})") from fault
    if not hasattr(adapted.base_model, "merge_and_unload"):
        raise ValueError(
            f"{folder}: must be an adapter that can be merged into its model, such as LoRA "
            f"({adapted.active_peft_config.peft_type.value} given)"
        )
    merged = adapted.merge_and_unload()
    return (merged, info) if output_loading_info else merged
