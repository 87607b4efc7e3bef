"""The auxiliary encoder: any transformers encoder, identified by its name and a fingerprint of its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding, PreTrainedModel

from nextword.runtime.pretrained import MINILM, encoder_location, unreadable_explained
from nextword.settings.registry import did_you_mean

_SAMPLED = 4096
"""Number of elements of each weight that the fingerprint depends on."""

POOLER = "pooler."
"""Prefix of the pooling layer's parameters in BERT and similar models; nextword does not use this layer."""


def load_encoder(source: str | Path | PreTrainedModel) -> PreTrainedModel:
    """Loads an encoder from a folder, from the hub, or by the name "minilm" from an installed package.

    ``source`` may also be a loaded model, which is returned unchanged.

    Raises:
        ValueError: If there is no such model, or it does not return an encoder's hidden states.
    """
    if isinstance(source, PreTrainedModel):
        return _checked(source, type(source).__name__)
    if not isinstance(source, str | Path):
        given = type(source).__name__  # type: ignore[unreachable]  # callers without types
        raise ValueError(f"encoder: must be a transformers model, a folder or a hub name ({given} given)")
    name = _name_of(source)
    with _explained(source):
        found: Any = _kind(AutoConfig.from_pretrained(name)).from_pretrained(name, dtype=torch.float32)
    found.config._name_or_path = str(source)
    return _checked(found, str(source))


def expect_encoder(source: str | Path) -> None:
    """Checks that ``source`` names a model, by loading only its configuration; raises ValueError if it does not."""
    name = _name_of(source)
    with _explained(source):
        AutoConfig.from_pretrained(name)


def _name_of(source: str | Path) -> str:
    named = encoder_location(str(source), "encoder")
    path = Path(named).expanduser()
    if str(source).startswith(("/", ".", "~")) and not path.is_dir():
        raise ValueError(f"encoder: no such folder: {source}")
    return str(path if path.is_dir() else named)


def _explained(source: str | Path) -> AbstractContextManager[None]:
    return unreadable_explained(str(source), "encoder", did_you_mean(str(source), [MINILM]))


def new_encoder(config: dict[str, Any]) -> PreTrainedModel:
    """Creates an encoder with the configuration ``config``; the caller loads the weights of a checkpoint into it."""
    made = AutoConfig.for_model(**config)
    encoder: PreTrainedModel = _kind(made).from_config(made)
    return encoder


def _kind(config: Any) -> Any:
    return AutoModelForTextEncoding if type(config) in AutoModelForTextEncoding._model_mapping else AutoModel


def _checked(encoder: PreTrainedModel, name: str) -> PreTrainedModel:
    config: Any = encoder.config
    own: Any = encoder
    if getattr(config, "hidden_size", None) is None:
        raise ValueError(
            f"encoder: {name} has no hidden_size in its configuration; a text encoder such as BERT is needed"
        )
    if config.is_encoder_decoder and own.get_decoder() is not encoder:
        raise ValueError(
            f"encoder: {name} is a whole encoder-decoder model; give its encoder as a model of its own (T5EncoderModel)"
        )
    # a model with its own output layer returns no hidden states in this trial run
    ids = torch.zeros(1, 2, dtype=torch.long, device=encoder.device)
    with torch.no_grad():
        states = getattr(encoder(input_ids=ids, attention_mask=torch.ones_like(ids)), "last_hidden_state", None)
    if states is None:
        raise ValueError(
            f"encoder: {name} does not return hidden states (last_hidden_state); give the encoder inside it, such as "
            "model.base_model"
        )
    return encoder


def width_of(config: dict[str, Any]) -> int:
    """Returns the width of the hidden states of an encoder with this configuration."""
    made: Any = AutoConfig.for_model(**config)
    return int(made.hidden_size)


def longest_text(encoder: PreTrainedModel) -> int | None:
    """Returns the largest number of tokens that an encoder can encode; None if its configuration has no limit."""
    for module in encoder.modules():
        positions: Any = getattr(module, "position_embeddings", None)
        if isinstance(positions, torch.nn.Embedding) and positions.padding_idx is not None:
            return positions.num_embeddings - positions.padding_idx - 1  # RoBERTa counts from after its padding token
    return getattr(encoder.config, "max_position_embeddings", None)


def identity_of(encoder: PreTrainedModel) -> dict[str, Any]:
    """Returns the encoder's ``name``, ``fingerprint`` and ``config`` as a mapping, to save beside its weights."""
    name = getattr(encoder.config, "_name_or_path", "") or type(encoder).__name__
    config = {
        key: value
        for key, value in encoder.config.to_dict().items()
        if key not in ("_name_or_path", "transformers_version")
    }
    return {"name": name, "fingerprint": fingerprint(encoder), "config": config}


def fingerprint(encoder: torch.nn.Module) -> str:
    """Returns a short checksum of an encoder's weights: of their names, their shapes, and some elements in bfloat16.

    Elements are converted to bfloat16, so that weights in float32 and bfloat16 have the same checksum. The pooling
    layer is left out: nextword does not use it, and not every encoder has one.
    """
    return fingerprint_of(sorted(encoder.named_parameters()))


@torch.no_grad()
def fingerprint_of(weights: Iterable[tuple[str, Tensor]]) -> str:
    """Returns the checksum of ``weights`` (pairs of name and tensor, sorted by name) as ``fingerprint`` does."""
    digest = hashlib.sha256()
    for name, weight in weights:
        if name.startswith(POOLER):
            continue
        flat = weight.detach().flatten()
        some = flat[:: max(1, len(flat) // _SAMPLED)].to("cpu", torch.bfloat16)
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        digest.update(some.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def comparable_fingerprint(model: torch.nn.Module) -> str | None:
    """Returns the model's ``fingerprint``; None if any weight is in float16 or has no values (meta device)."""
    weights = list(model.parameters())
    # float16 rounds differently from bfloat16
    if any(weight.dtype == torch.float16 or weight.is_meta for weight in weights):
        return None
    return fingerprint(model)


def expect_same(identity: dict[str, Any], encoder: PreTrainedModel, where: str) -> None:
    """Raises ValueError if ``encoder`` is not the encoder with this ``identity``; the message begins with ``where``.

    Widths of states and, unless ``encoder`` is in float16, fingerprints are compared.
    """
    width, theirs = width_of(identity["config"]), encoder.config.hidden_size
    if width != theirs:
        raise ValueError(
            f"{where}: its states are {theirs} wide, the model was trained with '{identity['name']}', {width} wide"
        )
    # float16 rounds differently from bfloat16, so the two cannot be compared
    if encoder.dtype != torch.float16 and fingerprint(encoder) != identity["fingerprint"]:
        raise ValueError(
            f"{where}: its weights are not those of '{identity['name']}' that the model was trained with (fingerprint "
            f"{identity['fingerprint']})"
        )
