"""Files with one JSON object a line: read strictly, every fault named with file and line, nothing dropped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol


class Digest(Protocol):
    """A checksum of hashlib."""

    def update(self, data: bytes, /) -> None:
        """Takes the next bytes."""


@dataclass(frozen=True)
class JsonLine:
    """One line.

    Attributes:
        number: Of the line in its file, from 1.
        place: File and line, for messages.
        content: The object.
    """

    number: int
    place: str
    content: dict[str, Any]


def json_lines(
    path: Path, where: str = "", digest: Digest | None = None, skip_empty: bool = False
) -> Iterator[JsonLine]:
    """The objects of a file, one at a time; a file whose name ends in ``.gz`` is unpacked.

    Args:
        path: One JSON object a line, UTF-8, with or without a byte order mark.
        where: Name of the setting that holds the path, for messages.
        digest: A checksum that is told all bytes of the (unpacked) file.
        skip_empty: Whether empty lines are passed over; otherwise they are errors.

    Raises:
        ValueError: The file cannot be read, or a line is empty, no JSON, no object, or has a key twice; the message
            names file and line.
    """
    for number, line in numbered_lines(path, where, digest):
        place = f"{file_place(path, where)}, line {number}"
        if line.strip():
            yield JsonLine(number, place, _object(line, place))
        elif not skip_empty:
            raise ValueError(f"{place}: empty line; each line is one JSON object")


def numbered_lines(path: Path, where: str = "", digest: Digest | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers from 1; arguments and errors as in ``json_lines``."""
    place = file_place(path, where)
    if path.is_dir():
        raise ValueError(f"{place} is a folder; give a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{place} is a pipe or device, which can be read only once; write it to a file")
    try:
        with _opened(path) as file:
            for number, raw in enumerate(file, 1):
                if digest is not None:
                    digest.update(raw)
                try:
                    # A byte order mark at the start of the file is no content.
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as fault:
                    raise ValueError(f"{place}, line {number}: not UTF-8 text ({fault.reason})") from None
    except FileNotFoundError:
        raise ValueError(f"{place} does not exist") from None
    except (OSError, EOFError) as fault:
        raise ValueError(f"{place} cannot be read ({getattr(fault, 'strerror', None) or fault})") from None


def file_place(path: Path, where: str) -> str:
    """A file as messages name it: after the setting that holds it, if there is one."""
    return f"{where}: '{path}'" if where else str(path)


def _opened(path: Path) -> BufferedIOBase:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        # Without its end, a fault at the end of a line is on that line.
        content = json.loads(line.rstrip("\r\n"), object_pairs_hook=_distinct)
    except json.JSONDecodeError as fault:
        hint = " This looks like a JSON array." if line.lstrip().startswith("[") else ""
        raise ValueError(
            f"{place}: not JSON ({fault.msg}, column {fault.colno}); each line is one JSON object.{hint}"
        ) from None
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{place}: {fault}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{place}: must be a JSON object ({line.strip()[:40]} given)")
    return content


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key '{next(key for key in keys if keys.count(key) > 1)}' comes twice")
    return content
