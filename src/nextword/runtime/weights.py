"""Weights in a given precision, and memory-mapped weights for models that must not be in memory as a whole.

The operating system keeps as much of a mapped file in memory as there is space for, and frees the space when it is
needed. A file's name is deleted right after the file is opened. So the content of the file is deleted together with the
last tensor in it, even if the process is killed.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

LEAST = 2**20
"""Minimum number of bytes of a memory-mapped tensor. Smaller tensors are in memory."""


def empty_on_disk(shape: torch.Size, dtype: torch.dtype, folder: Path) -> Tensor:
    """An uninitialised tensor in a file in ``folder``, or in memory if it has less than ``LEAST`` bytes.

    Raises:
        OSError: If there is not enough disk space.
    """
    size = shape.numel() * dtype.itemsize
    if size < LEAST:
        return torch.empty(shape, dtype=dtype)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{uuid.uuid4().hex}.weights"
    try:
        if hasattr(os, "posix_fallocate"):  # not on macOS; without reserved space, a full disk would kill the process
            with place.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        return torch.from_file(str(place), shared=True, size=shape.numel(), dtype=dtype).view(shape)
    finally:
        place.unlink(missing_ok=True)


def copy_on_disk(tensor: Tensor, folder: Path, dtype: torch.dtype | None = None) -> Tensor:
    """A copy of ``tensor`` made by ``empty_on_disk``, in the precision ``dtype`` or, if None, that of ``tensor``."""
    return empty_on_disk(tensor.shape, dtype or tensor.dtype, folder).copy_(tensor)


class MemoryMappedModel(TorchFunctionMode):
    """Context in which large weights of new modules are memory-mapped files in ``folder``, with unchanged values."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replaces ``torch.empty``, with which modules create their weights before they fill them in place."""
        named = kwargs or {}
        on_cpu = str(named.get("device") or torch.get_default_device()) == "cpu"
        if func is torch.empty and on_cpu and named.keys() <= {"size", "dtype", "device"}:
            planned = torch.empty(*args, **{**named, "device": "meta"})
            return empty_on_disk(planned.shape, planned.dtype, self._folder)
        return func(*args, **named)


def convert(model: PreTrainedModel, dtype: torch.dtype, folder: Path | None = None) -> None:
    """Converts the weights of ``model`` to ``dtype`` in place, as ``from_pretrained`` does.

    Weights that the model's class keeps in single precision are not converted. If ``folder`` is given, converted
    weights are memory-mapped files in this folder.
    """
    kept = "|".join(name.replace("*", ".*") for name in model._get_dtype_plan(dtype))
    for name, weight in model.state_dict(keep_vars=True).items():  # does not include buffers that are not saved
        if weight.is_floating_point() and weight.dtype != dtype and not (kept and re.search(kept, name)):
            weight.data = weight.data.to(dtype) if folder is None else copy_on_disk(weight.data, folder, dtype)
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            part.config.dtype = dtype


_PRECISIONS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}


def saved_precision(folder: Path) -> torch.dtype | None:
    """Precision of a folder's safetensors weights: float16, bfloat16 or float32. None if it is another or varies."""
    found = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            found |= {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118  (it is not a mapping)
    return _PRECISIONS.get(found.pop()) if len(found) == 1 else None


# -- Modules that are too large for the memory. An error is raised before memory is allocated.

M = TypeVar("M", bound=nn.Module)

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup/memory.max")


def built(build: Callable[[], M], name: str) -> M:
    """Returns the module that ``build`` makes, if there is enough memory for it. The error begins with ``name``.

    ``build`` is first called on the meta device, where tensors have shapes but take no memory. So ``build`` runs twice,
    and must not depend on anything that it changes.

    Raises:
        ValueError: If the parameters and buffers would need more memory than is free.

    >>> built(lambda: nn.Linear(10**6, 10**7), "a head")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: a head: its 10,000,010,000,000 numbers would take 37,252.9 GiB, ... GiB are free. Choose smaller sizes.
    """
    free = free_memory()
    if free is None or torch.get_default_device().type == "meta":
        return build()
    with torch.device("meta"):
        planned = build()
    tensors = [*planned.parameters(), *planned.buffers()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if size > free:
        numbers = sum(tensor.numel() for tensor in tensors)
        raise ValueError(
            f"{name}: its {numbers:,} numbers would take {size / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free. "
            f"Choose smaller sizes."
        )
    return build()


def free_memory() -> int | None:
    """Bytes of memory available without swapping, at most the memory limit of the container; None if unknown."""
    found = []
    if _MEMINFO.is_file():
        kilobytes = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines()).get("MemAvailable", "")
        found += [1024 * int(kilobytes.split()[0])] if kilobytes else []
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # the memory limit of a container can be lower than the free memory of the machine
    limit = _GROUP.read_text().strip() if _GROUP.is_file() else ""
    found += [int(limit)] if limit.isdigit() else []
    return min(found, default=None)
