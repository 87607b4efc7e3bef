"""A trained head and the backbone's saved weights as one model folder; the weights are copied, never loaded."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from nextword.model.modeling import NextWordModel
from nextword.runtime.files import replacing, write_atomically
from nextword.runtime.pretrained import model_location

BACKBONE = "backbone."
"""What the names of a backbone's weights begin with in a model of ours."""

_PIECE = 2**24  # bytes that are copied at once


def copied_backbone(model: NextWordModel, source: str | Path, folder: Path) -> bool:
    """Writes a model with stored states as an ordinary one: its own weights, and those of its backbone from files.

    Args:
        model: The model; its backbone has no layers.
        source: Folder of the model whose states are stored.
        folder: Where to write; made where missing.

    Returns:
        False, with nothing written, where the saved weights are not safetensors files under the names that the model
        has in memory: then it must be loaded to be saved.
    """
    location = Path(model_location(source))
    files = sorted(location.glob("model*.safetensors")) if location.is_dir() else []
    names = {file: _names_with_us(file) for file in files}
    if not _is_whole(model, {new for of in names.values() for new in of.values()}):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    count = len(files) + 1
    pieces = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    weight_map: dict[str, str] = {}
    for file, piece in zip(files, pieces, strict=False):
        copy_renamed(file, folder / piece, names[file])
        weight_map |= dict.fromkeys(names[file].values(), piece)
    own = {name: tensor.cpu() for name, tensor in model.state_dict().items() if not name.startswith(BACKBONE)}
    save_file(own, folder / pieces[-1], {"format": "pt"})
    weight_map |= dict.fromkeys(own, pieces[-1])
    size = sum((folder / piece).stat().st_size for piece in pieces)
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    write_atomically(folder / "model.safetensors.index.json", json.dumps(index, indent=2) + "\n")
    model.config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    return True


def _names_with_us(file: Path) -> dict[str, str]:
    # by the names in a file those in a model of ours; a head in the file is not that of the new model
    with safe_open(file, framework="pt") as opened:
        names = list(opened.keys())
    if any(name.startswith(BACKBONE) for name in names):
        return {name: name for name in names if name.startswith(BACKBONE)}
    return {name: BACKBONE + name for name in names}


def _is_whole(model: NextWordModel, found: set[str]) -> bool:
    """Whether these are all weights of the backbone, under the names of an ordinary model; a tied one stands once."""
    with torch.device("meta"):
        ordinary = type(model)(copy.deepcopy(model.config))
    weights = {name: one for name, one in ordinary.state_dict(keep_vars=True).items() if name.startswith(BACKBONE)}
    there = {id(one) for name, one in weights.items() if name in found}
    return found <= weights.keys() and all(id(one) in there for one in weights.values())


def copy_renamed(source: Path, target: Path, names: Mapping[str, str]) -> None:
    """Copies tensors of a safetensors file under other names, as the bytes that they are.

    Args:
        source: The file.
        target: The new file, written whole or not at all.
        names: By the name in the source that in the target; others are left out.
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
