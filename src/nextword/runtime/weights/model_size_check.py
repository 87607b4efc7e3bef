"""Modules too large for the memory, refused before any of it is taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup/memory.max")


def built(build: Callable[[], M], name: str) -> M:
    """What ``build`` makes, if there is memory for it.

    It is built on the meta device first, where tensors have shapes and take no memory.

    Args:
        build: Makes the module, and depends on nothing that it changes.
        name: What it is, for the message.

    Raises:
        ValueError: Its parameters and buffers would take more memory than there is.

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
    """Bytes that can be taken without swapping; None where the system does not say."""
    found = []
    if _MEMINFO.is_file():
        kilobytes = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines()).get("MemAvailable", "")
        found += [1024 * int(kilobytes.split()[0])] if kilobytes else []
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # What a container may take in all can be less than what the machine has free.
    limit = _GROUP.read_text().strip() if _GROUP.is_file() else ""
    found += [int(limit)] if limit.isdigit() else []
    return min(found, default=None)
