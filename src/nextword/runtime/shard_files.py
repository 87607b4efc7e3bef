"""Stores: folders of arrays that a command builds in numbered parts (shards). Files are written atomically."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from nextword.runtime.files import Record, replacing

BEGUN = "begun.json"
"""The first file of a store. It describes the content that the store will have."""

Facts = TypeVar("Facts", bound=Record)


@dataclass(frozen=True)
class StoreKind:
    """A kind of store, such as a datastore.

    Attributes:
        setting: Name of the setting in which users give the folder of such a store, for messages.
        title: Name of such a store, for messages.
        manifest: File that is written last. A folder without it is unfinished.
        command: The command that builds such a store.
    """

    setting: str
    title: str
    manifest: str
    command: str

    def manifest_in(self, folder: Path, record: type[Facts]) -> Facts:
        """The manifest of the finished store in ``folder``. ValueError without a manifest, or if it is invalid."""
        if os.path.isfile(folder / self.manifest):  # unlike Path.is_file, returns False for an invalid file name
            return record.load(folder / self.manifest)
        begun = os.path.isfile(folder / BEGUN)
        said, instead = "given", f"make one with '{self.command} MODEL DATA --out FOLDER'"
        if begun:
            said = "was begun and not finished"
            instead = f"wait if it is still being built, or run the same '{self.command}' again to resume"
        raise ValueError(f"{self.setting}: must be a finished {self.title} ('{folder}' {said}); {instead}")

    def damaged(self, path: Path, said: str) -> ValueError:
        """The error for the file ``path`` of a shard. ``said`` describes the fault."""
        facts = f"{path.name.partition('.')[0]}.json"
        return ValueError(
            f"{self.setting}: must have all of its shards ('{path}' {said}); delete {facts} and {self.manifest} there "
            f"and run the same '{self.command}' again, which makes this shard anew"
        )


def shard_file(folder: Path, number: int, part: str) -> Path:
    """The path of the file of shard ``number``, counted from 0, with the ending ``part``, such as "json"."""
    return folder / f"shard-{number:05d}.{part}"


def finished_shard(folder: Path, number: int, record: type[Facts]) -> Facts | None:
    """Reads the .json file of shard ``number``, which is written last. None if the shard is unfinished."""
    path = shard_file(folder, number, "json")
    return record.load(path) if path.is_file() else None


def write_array(path: Path, array: np.ndarray) -> None:
    """Writes an array as a .npy file, completely or not at all."""
    # np.save is not used: it writes from C code, which does not report a full disk
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(np.ascontiguousarray(array).data)
