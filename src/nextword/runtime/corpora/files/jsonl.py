"""Files with one JSON object a line, or one JSON list of them: read strictly, every fault named, nothing dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextword.runtime.corpora.files.packed import Digest, file_place, numbered_lines
from nextword.settings.whole_characters import expect_whole_characters


@dataclass(frozen=True)
class JsonLine:
    """One line, one entry of a list, or one row of another table.

    Attributes:
        number: Of the line in its file, of the entry or of the row, from 1.
        place: File and line, for messages.
        content: The object.
    """

    number: int
    place: str
    content: dict[str, Any]


def json_lines(
    path: Path, where: str = "", digest: Digest | None = None, skip_empty: bool = False
) -> Iterator[JsonLine]:
    """The objects of a file, plain or packed, one at a time.

    Args:
        path: One JSON object a line, or one list of objects; UTF-8, with or without a byte order mark.
        where: Name of the setting that holds the path, for messages.
        digest: A checksum that is told all bytes of the (unpacked) file.
        skip_empty: Whether empty lines are passed over; otherwise they are errors.

    Raises:
        ValueError: The file cannot be read, or a line is empty, no JSON, no object, has a key twice or half a
            character; the message names file and line.
    """
    place, begun = file_place(path, where), False
    lines = numbered_lines(path, where, digest)
    for number, line in lines:
        if not begun and line.lstrip().startswith("["):
            yield from _entries("".join([line, *(rest for _, rest in lines)]), place)
        elif line.strip():
            begun = True
            yield JsonLine(number, f"{place}, line {number}", _object(line, f"{place}, line {number}"))
        elif not skip_empty:
            raise ValueError(f"{place}, line {number}: empty line; each line is one JSON object")


def _entries(text: str, place: str) -> Iterator[JsonLine]:
    try:
        entries: list[Any] = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as fault:
        raise ValueError(
            f"{place}: not a whole JSON list ({fault}); fetch it anew, or give one object a line"
        ) from None
    for number, entry in enumerate(entries, 1):
        entry_place = f"{place}, entry {number}"
        if not isinstance(entry, dict):
            raise ValueError(f"{entry_place}: must be a JSON object ({json.dumps(entry)[:40]} given)")
        expect_whole_characters(json.dumps(entry, ensure_ascii=False), entry_place)
        yield JsonLine(number, entry_place, entry)


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        # Without its end, a fault at the end of a line is on that line.
        content = json.loads(line.rstrip("\r\n"), object_pairs_hook=_distinct)
    except json.JSONDecodeError as fault:
        hint = " Its line ends are single carriage returns; convert them." if "\r" in line.rstrip("\r\n") else ""
        raise ValueError(
            f"{place}: not JSON ({fault.msg}, column {fault.colno}); each line is one JSON object.{hint}"
        ) from None
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{place}: {fault}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{place}: must be a JSON object ({line.strip()[:40]} given)")
    if "\\ud" in line or "\\uD" in line:  # how the halves of a character are written, and the only way to one alone
        expect_whole_characters(json.dumps(content, ensure_ascii=False), place)
    return content


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key '{next(key for key in keys if keys.count(key) > 1)}' comes twice")
    return content
