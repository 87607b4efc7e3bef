"""A saved model with all that is needed to ask it about texts: its tokenizer, and that of its auxiliary encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.conditioning.parts.auxiliary_tokenizer import ENCODER_TOKENIZER, AuxiliaryTokenizer
from nextword.model.attach import load
from nextword.pretrained import load_tokenizer, model_location

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class OpenedModel:
    """A model in evaluation mode and its tokenizers.

    Attributes:
        name: What tables call it.
        model: An attached model; a plain one of transformers has the head ``softmax``, which changes nothing.
        tokenizer: The model's.
        auxiliary_tokenizer: Makes inputs of auxiliary texts; None where the model has no conditioner.
    """

    name: str
    model: Any
    tokenizer: PreTrainedTokenizerBase
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None

    @property
    def has_encoder(self) -> bool:
        """Whether it is an encoder-decoder model, which reads a source."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def longest(self) -> int | None:
        """Tokens that the decoder can see at once; None where its configuration names no limit."""
        config: Any = self.model.config.get_text_config(decoder=True)
        limit = getattr(config, "max_position_embeddings", None)  # T5's n_positions limits nothing
        return limit if isinstance(limit, int) else None


def open_model(path: str | Path, device: str = "auto", dtype: str = "auto", name: str | None = None) -> OpenedModel:
    """Opens a saved model, ours or any of transformers.

    Args:
        path: Folder or hub name.
        device: Where it computes; ``auto``: an accelerator where there is one.
        dtype: Of its weights; ``auto``: as saved.
        name: What tables call it; the folder's name by default.

    Raises:
        ValueError: No such device, no model there, or half of one, or no tokenizer beside it.
    """
    location, where = model_location(path), _device(device)
    model: Any = load(location, dtype=dtype if dtype == "auto" else getattr(torch, dtype))
    tokenizer = load_tokenizer(str(location), f"{location}: tokenizer")
    title = name or (Path(location).resolve().name if isinstance(location, Path) else location)
    return OpenedModel(title, model.to(where).eval(), tokenizer, _auxiliary_tokenizer(location, model, tokenizer))


def _device(name: str) -> torch.device:
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as fault:  # torch has either for a device that is not there
        raise ValueError(f"device: must be auto or a device of torch that is here ('{name}' given: {fault})") from None


def _auxiliary_tokenizer(
    location: str | Path, model: Any, tokenizer: PreTrainedTokenizerBase
) -> AuxiliaryTokenizer | None:
    if model.conditioner is None:
        return None
    copies = tokenizer if model.next_word_head.reads_source else None
    folder = Path(location)
    for place in (folder / ENCODER_TOKENIZER, folder.parent / ENCODER_TOKENIZER):
        if place.is_dir():
            return AuxiliaryTokenizer(load_tokenizer(str(place), f"{place}: tokenizer"), copies)
    raise ValueError(
        f"{location}: the model follows auxiliary texts, and there is no {ENCODER_TOKENIZER} in its folder; save the "
        f"encoder's tokenizer there, with AutoTokenizer.from_pretrained(ENCODER).save_pretrained"
    )
