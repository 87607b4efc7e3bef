"""Appends rows of measurements to a table that keeps all earlier rows."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nextword.results.records import Environment


def append(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends rows to a CSV file, with a header where it is new.

    Raises:
        ValueError: The file has other columns: rows with new columns belong into a new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    own, found = list(rows[0]), columns(path)
    if found and found != own:
        raise ValueError(f"{path}: its columns are {found}, the rows have {own}; write to another file")
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, own, lineterminator="\n")
        if not found:
            writer.writeheader()
        writer.writerows(rows)


def columns(path: Path) -> list[str]:
    """The columns of a table; none where there is no such file yet, or nothing in it."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def read(path: Path) -> list[dict[str, str]]:
    """All rows, oldest first; none where there is no such file yet."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def newest(rows: Sequence[Mapping[str, str]], keys: Sequence[str]) -> list[dict[str, str]]:
    """The last row of each kind, in the order in which kinds came first; ``keys`` are the columns that tell kinds."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        found[tuple(row[key] for key in keys)] = dict(row)
    return list(found.values())


def surroundings() -> dict[str, Any]:
    """Columns that every row ends with: hardware, versions, allocator, commit and date."""
    environment = Environment.collect().model_dump(mode="json", exclude={"python", "platform"})
    return {"allocator": allocator(), **environment}


def allocator() -> str:
    """What is not as usual about the memory allocator of this process, which moves times by a tenth and more."""
    preloaded = [Path(name).name.split(".")[0] for name in os.environ.get("LD_PRELOAD", "").split(":") if name]
    tuned = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("MALLOC_")]
    tuned += [os.environ[name] for name in ("GLIBC_TUNABLES", "PYTORCH_CUDA_ALLOC_CONF") if os.environ.get(name)]
    return " ".join([*preloaded, *tuned]) or "default"
