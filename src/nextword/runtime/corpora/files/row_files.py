"""Rows of tables as objects: JSON lines, a JSON list, .csv, .tsv, .parquet or .arrow, one file after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nextword.runtime.corpora.files.jsonl import JsonLine, json_lines
from nextword.runtime.corpora.files.packed import file_place
from nextword.runtime.corpora.files.separated import separated_rows
from nextword.runtime.corpora.part_names import STORED, is_json_lines, separator_of, table_ending


def table_rows(path: Path, where: str, with_header: bool = True, skip_empty: bool = True) -> Iterator[JsonLine]:
    """The rows of a file, one at a time.

    Args:
        path: The file; its ending says what it is, and JSON that begins with ``[`` is one list.
        where: Name of the setting that holds the path, for messages.
        with_header: Whether the first row of a .csv or .tsv names the columns; otherwise they are numbered from 0.
        skip_empty: Whether empty ones of JSON lines are passed over; otherwise they are errors.

    Raises:
        ValueError: The file cannot be read, or has no rows; the message names file and row.
    """
    empty = True
    for row in _rows(path, where, with_header, skip_empty):
        empty = False
        yield row
    if empty:
        raise ValueError(f"{file_place(path, where)} is empty.")


def is_stored(path: Path) -> bool:
    """Whether this is a table whose columns have types, which ``stored_table`` reads."""
    return table_ending(path) in STORED


def stored_table(files: Sequence[Path], where: str, streaming: bool = True) -> Any:
    """The rows of .parquet or .arrow files, of one kind, as a data set.

    Args:
        files: The files.
        where: Name of the setting that holds them, for messages.
        streaming: They are read as they are; otherwise ``datasets`` first stores them in its cache.

    Raises:
        ValueError: One cannot be read.
    """
    from datasets import load_dataset

    reader = str(table_ending(files[0])).removeprefix(".")
    given = {"train": [str(file) for file in files]}
    return as_one_error(
        lambda: load_dataset(reader, data_files=given, split="train", streaming=streaming),
        f"{where}: '{files[0]}' cannot be read",
    )


@contextlib.contextmanager
def readable(source: str) -> Iterator[None]:
    """Errors of the libraries that read files become a ``ValueError`` that names the data."""
    try:
        yield
    except Exception as error:
        library = type(error).__module__.split(".")[0]
        if library not in ("datasets", "pandas", "pyarrow") and not isinstance(error, UnicodeDecodeError):
            raise
        raise ValueError(f"'{source}' cannot be read: {_first_line(error)}") from error


def as_one_error(reading: Callable[[], Any], what: str) -> Any:
    """What ``datasets`` gives, its many kinds of errors as one ``ValueError`` that begins with ``what``."""
    try:
        return reading()
    except Exception as error:
        if isinstance(error.__cause__, ValueError):  # what our own readers found, in an error of datasets
            raise error.__cause__ from None
        raise ValueError(f"{what} ({_first_line(error)})") from None


def _rows(path: Path, where: str, with_header: bool, skip_empty: bool) -> Iterator[JsonLine]:
    separator = separator_of(path)
    if separator is not None:
        return separated_rows(path, where, separator, with_header)
    if is_json_lines(path):
        return json_lines(path, where, skip_empty=skip_empty)
    return _stored_rows(path, where)


def _stored_rows(path: Path, where: str) -> Iterator[JsonLine]:
    place = file_place(path, where)
    with readable(str(path)):
        for number, row in enumerate(stored_table([path], where), 1):
            yield JsonLine(number, f"{place}, row {number}", dict(row))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
