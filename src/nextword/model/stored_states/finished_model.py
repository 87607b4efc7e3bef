"""Saves a whole model from a trained head and the backbone's saved weights, which are copied without being loaded."""

from __future__ import annotations

import copy
import json
import os
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig
from transformers.utils import GENERATION_CONFIG_NAME

from nextword.conditioning.auxiliary_encoder import fingerprint_of
from nextword.model.modeling import NextWordModel
from nextword.model.stored_states.state_files import StatesOrigin
from nextword.runtime.files import replacing, write_atomically
from nextword.runtime.pretrained import from_pretrained, model_location

BACKBONE, HEAD = "backbone.", "next_word_head."
"""Prefixes of the names of weights in a nextword model: weights of the backbone, and weights of the head."""

_PIECE = 2**24  # number of bytes that are copied at a time


def copied_backbone(model: NextWordModel, source: str | Path, folder: Path, shared: Path | None = None) -> bool:
    """Saves a model with stored states as an ordinary model: its head, and a copy of the backbone's weight files.

    Args:
        model: The model, whose backbone is a ``StoredBackbone`` without layers.
        source: Folder of the model whose states are stored; the backbone's weights are copied from it.
        folder: Folder to write to, created if missing.
        shared: Folder with one copy of the backbone's files, to which several models link. None: ``folder`` gets files
            of its own.

    Returns:
        True if the model was written. False, with nothing written, if ``model`` has a conditioner or the weights in
        ``source`` are not safetensors files with the names of the loaded model. Load ``source`` to save such a model.
    """
    if model.conditioner is not None:
        return False
    location = Path(model_location(source))
    files = _weight_files(location) if location.is_dir() else []
    names = {file: of for file in files if (of := _names_with_us(file))}
    files = list(names)
    if not _is_whole(model, {new for of in names.values() for new in of.values()}):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    count = len(files) + 1
    pieces = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    weight_map: dict[str, str] = {}
    for file, piece in zip(files, pieces, strict=False):
        if shared is None:
            copy_renamed(file, folder / piece, names[file])
        else:
            _linked(file, shared / piece, folder / piece, names[file])
        weight_map |= dict.fromkeys(names[file].values(), piece)
    own = {name: tensor.cpu() for name, tensor in model.state_dict().items() if not name.startswith(BACKBONE)}
    save_file(own, folder / pieces[-1], {"format": "pt"})
    weight_map |= dict.fromkeys(own, pieces[-1])
    size = sum((folder / piece).stat().st_size for piece in pieces)
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    write_atomically(folder / "model.safetensors.index.json", json.dumps(index, indent=2) + "\n")
    model.config.save_pretrained(folder)
    written_with = model.generation_config
    if (location / GENERATION_CONFIG_NAME).is_file():
        written_with = GenerationConfig.from_pretrained(location)
    if written_with is not None:
        written_with.save_pretrained(folder)
    return True


def _linked(source: Path, once: Path, target: Path, names: Mapping[str, str]) -> None:
    # a hard link, or a copy if the file system has no hard links
    if not once.exists():
        copy_renamed(source, once, names)
        once.chmod(0o444)  # read-only, because a write through one link would change all models
    target.unlink(missing_ok=True)
    try:
        os.link(once, target)
    except OSError:
        with open(once, "rb") as old, replacing(target) as new:
            shutil.copyfileobj(old, new, _PIECE)


def _names_with_us(file: Path) -> dict[str, str]:
    # the new name in a nextword model by the name in the file; weights of a head in the file are left out
    with safe_open(file, framework="pt") as opened:
        names = list(opened.keys())
    if any(name.startswith((BACKBONE, HEAD)) for name in names):
        return {name: name for name in names if name.startswith(BACKBONE)}
    return {name: BACKBONE + name for name in names}


def _is_whole(model: NextWordModel, found: set[str]) -> bool:
    """Whether the names are those of all weights of the backbone in a nextword model; tied weights count once."""
    config = copy.deepcopy(model.config)
    config._attn_implementation = "eager"  # the stored backbone's own may not exist in the ordinary one (Gemma 2)
    with torch.device("meta"):
        ordinary = type(model)(config)
    weights = {name: one for name, one in ordinary.state_dict(keep_vars=True).items() if name.startswith(BACKBONE)}
    there = {id(one) for name, one in weights.items() if name in found}
    return found <= weights.keys() and all(id(one) in there for one in weights.values())


# -- Whether a saved model has the weights from which the stored states were computed.


def expect_backbone(location: str | Path, origin: StatesOrigin) -> None:
    """Raises ValueError unless the model at ``location`` has the backbone of the store that ``origin`` describes."""
    stored = origin.model_fingerprint
    found = _saved_fingerprint(location)
    if stored is None and found is not None:  # the store has no fingerprint (half precision), so compare the files
        stored = _saved_fingerprint(model_location(origin.model))
    known = found is not None and stored is not None  # unknown for a GGUF file, which must have the store's own name
    if (found != stored) if known else (location != model_location(origin.model)):
        raise ValueError(
            f"model: must have the backbone whose states are stored ('{location}' has other weights than "
            f"'{origin.model}', or they cannot be compared); build a store with this model"
        )


def _saved_fingerprint(location: str | Path) -> str | None:
    """A backbone's fingerprint from its files, one weight at a time in memory. None if weights have other names."""
    if not isinstance(location, Path) or not location.is_dir():
        return None
    config = from_pretrained(AutoConfig, location)
    kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"):
        built: Any = kind.from_config(config)
    backbone = built.backbone if isinstance(built, NextWordModel) else built
    files = {new: (file, old) for file in _weight_files(location) for old, new in _names_with_us(file).items()}
    wanted = sorted(name for name, _ in backbone.named_parameters())
    if not all(BACKBONE + name in files for name in wanted):
        return None
    return fingerprint_of((name, _read(*files[BACKBONE + name])) for name in wanted)


def _weight_files(location: Path) -> list[Path]:
    return sorted(location.glob("model*.safetensors"))


def _read(file: Path, name: str) -> Tensor:
    with safe_open(file, framework="pt") as opened:
        weight: Tensor = opened.get_tensor(name)
    return weight


def saved_head(location: str | Path) -> dict[str, Tensor]:
    """Reads the head of the model saved at ``location``, as a mapping from name (in the head) to weight."""
    found: dict[str, Tensor] = {}
    for file in _weight_files(Path(location)):
        with safe_open(file, framework="pt") as opened:
            names = list(opened.keys())
            found |= {name: opened.get_tensor(name) for name in names if name.startswith(HEAD)}
    return {name.removeprefix(HEAD): weight for name, weight in found.items()}


def copy_renamed(source: Path, target: Path, names: Mapping[str, str]) -> None:
    """Copies tensors of a safetensors file under other names, byte by byte.

    Args:
        source: The file to copy from.
        target: The new file, written completely or not at all.
        names: Mapping from the name of a tensor in ``source`` to its new name. Other tensors are left out.
    """
    with open(source, "rb") as old, replacing(target) as new:
        (length,) = struct.unpack("<Q", old.read(8))
        header: dict[str, Any] = json.loads(old.read(length))
        chosen = sorted(((header[name]["data_offsets"], name) for name in names), key=lambda one: one[0])
        written: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = 0
        for (first, last), name in chosen:
            written[names[name]] = {**header[name], "data_offsets": [end, end + last - first]}
            end += last - first
        packed = json.dumps(written).encode()
        packed += b" " * (-len(packed) % 8)
        new.write(struct.pack("<Q", len(packed)))
        new.write(packed)
        for (first, last), _ in chosen:
            old.seek(8 + length + first)
            for begin in range(first, last, _PIECE):
                new.write(old.read(min(_PIECE, last - begin)))
