"""Names of the splits of a data set in file names, and file formats by ending.

All readers of texts use these names, so that they accept the same folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PARTS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing"),
}
"""Names of the splits in file and folder names, in fields of JSON lines, and on the hub."""

PACKINGS = ("", ".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed files. The empty ending means a plain file."""


def _packed(*endings: str) -> tuple[str, ...]:
    return tuple(f"{ending}{packing}" for ending in endings for packing in PACKINGS)


JSON_LINES = _packed(".jsonl", ".ndjson", ".json")
"""Endings of files with one JSON object per line or one JSON list of objects, which may be compressed."""

SEPARATORS = {",": _packed(".csv"), "\t": _packed(".tsv")}
"""The separators of cells in text tables, with the endings of such tables."""

STORED = (".parquet", ".arrow")
"""Endings of tables whose columns have types."""

TABLES = (*JSON_LINES, *SEPARATORS[","], *SEPARATORS["\t"], *STORED)
"""Endings of tables, which have rows and columns. One column is the text."""

TEXTS = _packed(".txt", ".text", ".raw", ".tokens")
"""Endings of plain-text files, which may be compressed."""


def part_of(word: str) -> str | None:
    """The split that a word names, case-insensitively. None if it is not a name of a split.

    >>> part_of("Dev"), part_of("testing"), part_of("notes")
    ('validation', 'test', None)
    """
    return next((part for part, words in PARTS.items() if word.lower() in words), None)


def words_for(split: str) -> tuple[str, ...]:
    """``split``, followed by its synonyms if it names one of the three splits.

    >>> words_for("dev"), words_for("extra")
    (('dev', 'validation', 'valid', 'val'), ('extra',))
    """
    part = part_of(split)
    return tuple(dict.fromkeys((split, *PARTS[part]))) if part else (split,)


def table_ending(file: Path) -> str | None:
    """The ending that gives the format of a table. None if the file is not a table.

    >>> table_ending(Path("a/Part-0.JSONL.gz")), table_ending(Path("train.txt"))
    ('.jsonl.gz', None)
    """
    return _ending(file, TABLES)


def is_json_lines(file: Path) -> bool:
    """Whether the ending of a file's name is in ``JSON_LINES``."""
    return _ending(file, JSON_LINES) is not None


def separator_of(file: Path) -> str | None:
    """The separator of the cells of a text table. None for other files.

    >>> separator_of(Path("a.csv.gz")), separator_of(Path("a.jsonl"))
    (',', None)
    """
    return next((separator for separator, endings in SEPARATORS.items() if _ending(file, endings) is not None), None)


def is_text(file: Path) -> bool:
    """Whether a file's name shows that it is plain text: by its ending, or because it is the name of a split."""
    return _ending(file, TEXTS) is not None or part_of(file.name) is not None


def text_files(folder: Path) -> list[Path]:
    """Text files and tables of a folder and its subfolders, recognised by name, sorted, without hidden files."""
    return sorted(
        file
        for file in folder.rglob("*")
        if (is_text(file) or table_ending(file) is not None)
        and not any(step.startswith(".") for step in file.relative_to(folder).parts)
        and file.is_file()
        and not _is_beside_saved_rows(file)
    )


def is_saved_set(folder: Path) -> bool:
    """Whether a folder is a data set without splits that ``datasets`` has saved to disk."""
    return (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()


def _is_beside_saved_rows(file: Path) -> bool:
    is_beside = file.name in ("dataset_info.json", "state.json") or file.name.startswith("cache-")
    return (is_beside and is_saved_set(file.parent)) or file.name == "dataset_dict.json"


def part_files(folder: Path, split: str, where: str, endings: Sequence[str] = (*TABLES, *TEXTS, "")) -> list[Path]:
    """The files of a split in a folder. Empty if there are none.

    If a file directly in ``folder`` has exactly the name of the split (``train.txt``, ``training.jsonl``), only this
    file is taken, and a text is preferred to a table. Otherwise all files are taken whose own name or folder's name
    contains the split's name (``raw_train.tsv``, ``train/part-0.jsonl``), sorted. ``split`` may be any name. If it
    is a name of one of the three splits, its synonyms are accepted too. Files with other endings than ``endings`` are
    ignored. Messages name the setting ``where``.

    Raises:
        ValueError: If two files could be the split, or its files have several formats.
    """
    words = words_for(split)
    files = [file for file in text_files(folder) if _ending(file, endings) is not None]
    exact = [file for file in files if file.parent == folder and _stem(file).lower() in words]
    exact = [file for file in exact if table_ending(file) is None] or exact
    if len(exact) > 1:
        raise ValueError(
            f"{where}: {_listed(exact, folder)} in '{folder}' could each be the {split} split. Keep one of them there."
        )
    found = exact or [file for file in files if not set(words).isdisjoint(_words_of(file.relative_to(folder)))]
    if len({table_ending(file) for file in found}) > 1:
        raise ValueError(
            f"{where}: the {split} split of '{folder}' has files of several formats, {_listed(found, folder)}. Name "
            f"the one to read '{words[0]}', with its ending."
        )
    return found


def file_names(part: str, endings: Iterable[str] = (".txt", ".jsonl")) -> str:
    """The file names for the split ``part``, for messages about missing files.

    >>> file_names("test", [".jsonl"])
    'test.jsonl, testing.jsonl'
    """
    return ", ".join(f"{word}{ending}" for ending in endings for word in PARTS[part])


def _ending(file: Path, endings: Iterable[str]) -> str | None:
    name = file.name.lower()
    return next((ending for ending in endings if name.endswith(ending)), None)


def _stem(file: Path) -> str:
    ending = _ending(file, (*TABLES, *TEXTS)) or ""
    return file.name[: len(file.name) - len(ending)]


def _words_of(path: Path) -> Iterator[str]:
    return iter(re.split(r"[^a-z]+", path.as_posix().lower()))


def _listed(files: list[Path], folder: Path) -> str:
    return ", ".join(str(file.relative_to(folder)) for file in files)
