"""Rows of a table as objects: JSON lines, a JSON list, or a .csv, .tsv or .parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nextword.corpora.jsonl import JsonLine, file_place, json_lines, numbered_lines
from nextword.corpora.open import readable, table
from nextword.corpora.part_names import is_json_lines


def table_rows(path: Path, where: str) -> Iterator[JsonLine]:
    """The rows of a file, one at a time; of JSON lines, empty ones are passed over.

    Args:
        path: The file; its ending says what it is, and JSON that begins with ``[`` is one list.
        where: Name of the setting that holds the path, for messages.

    Raises:
        ValueError: The file cannot be read, or has no rows; the message names file and row.
    """
    if not is_json_lines(path):
        rows = _columns(path, where)
    elif _begins_a_list(path, where):
        rows = _list_entries(path, where)
    else:
        rows = json_lines(path, where, skip_empty=True)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise ValueError(f"{file_place(path, where)} is empty.")


def _begins_a_list(path: Path, where: str) -> bool:
    first = next((line for _, line in numbered_lines(path, where) if line.strip()), "")
    return first.lstrip().startswith("[")


def _list_entries(path: Path, where: str) -> Iterator[JsonLine]:
    place = file_place(path, where)
    try:
        entries: list[Any] = json.loads("".join(line for _, line in numbered_lines(path, where)))
    except ValueError as fault:
        raise ValueError(
            f"{place}: not a whole JSON list ({fault}); fetch it anew, or give one object a line"
        ) from None
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise ValueError(f"{place}, entry {number}: must be a JSON object ({json.dumps(entry)[:40]} given)")
        yield JsonLine(number, f"{place}, entry {number}", entry)


def _columns(path: Path, where: str) -> Iterator[JsonLine]:
    place = file_place(path, where)
    with readable(str(path)):
        for number, row in enumerate(table([path], where), 1):
            yield JsonLine(number, f"{place}, row {number}", dict(row))
