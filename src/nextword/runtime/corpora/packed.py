"""Reads plain and compressed text files. Gzip, bzip2, xz and Zstandard are recognised by the first bytes of a file."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

ARCHIVES = {b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a": "rar"}
"""First bytes of archives, which are not supported because they may have many files."""

OTHER_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
"""Byte order marks of unsupported encodings."""


class Digest(Protocol):
    """A checksum object, such as those of ``hashlib``."""

    def update(self, data: bytes, /) -> None:
        """Adds the next bytes."""


def _zstandard(path: Path, mode: str) -> IO[bytes]:
    import pyarrow

    return io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd"))


PACKED: dict[bytes, Callable[[Path, str], Any]] = {
    rb"\x1f\x8b": gzip.open,
    rb"BZh[1-9]1AY&SY": bz2.open,
    rb"\xfd7zXZ\x00": lzma.open,
    rb"\x28\xb5\x2f\xfd": _zstandard,
}
"""For each kind of compressed file, a pattern of its first bytes, and the function that opens it."""

LONGEST_SIGN = 10


def is_packed(path: Path, where: str = "") -> bool:
    """Whether a file is compressed.

    Raises:
        ValueError: If the first bytes show that the file is neither text nor compressed text.
    """
    beginning = _beginning(path)
    _expect_text(beginning, file_place(path, where))
    return _unpacking(beginning) is not None


def numbered_lines(path: Path, where: str = "", digest: Digest | None = None) -> Iterator[tuple[int, str]]:
    """Yields number (from 1) and text of each line of a plain or compressed UTF-8 file, without a byte order mark.

    Messages name the setting ``where``. ``digest`` receives all bytes of the decompressed file.

    Raises:
        ValueError: If the file cannot be read or is not text. The message names the file and the line.
    """
    place = file_place(path, where)
    with opened(path, where) as file:
        for number, raw in enumerate(file, 1):
            if digest is not None:
                digest.update(raw)
            try:
                # a byte order mark at the start of the file is not part of the text
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as fault:
                raise ValueError(f"{place}, line {number}: not UTF-8 text ({fault.reason})") from None


def gathered(lines: Iterable[str], characters: int) -> Iterator[list[str]]:
    r"""Groups lines into lists of at least ``characters`` characters each, except the last list.

    >>> list(gathered(["one\n", "two\n", "three"], 5))
    [['one\n', 'two\n'], ['three']]
    """
    some: list[str] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if size >= characters:
            yield some
            some, size = [], 0
    if some:
        yield some


def file_text(path: Path, where: str = "") -> str:
    """The text of a plain or compressed file, with unchanged line ends. ValueError if it is not readable UTF-8."""
    with opened(path, where) as file:
        raw = file.read()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise ValueError(
            f"{file_place(path, where)} is not UTF-8 text (byte {fault.start}); is it a binary file?"
        ) from None


def plain_text(path: Path, where: str = "") -> str:
    """Like ``file_text``, but also raises ValueError if the file is blank or has a zero byte."""
    text, place = file_text(path, where), file_place(path, where)
    if "\0" in text:
        byte = len(text[: text.index("\0")].encode())
        raise ValueError(f"{place}: must be text (a zero byte at {byte}); is it a binary file?")
    if not text.strip():
        raise ValueError(f"{place}: must have a text (an empty file given)")
    return text


@contextlib.contextmanager
def opened(path: Path, where: str = "") -> Iterator[IO[bytes]]:
    """Opens a file for reading bytes. A compressed file is decompressed.

    Raises:
        ValueError: If ``path`` is a folder, an archive or missing, or if reading fails, also later in the block.
    """
    place = file_place(path, where)
    if path.is_dir():
        raise ValueError(f"{place} is a folder; give a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{place} is a pipe or device, which can be read only once; write it to a file")
    try:
        beginning = _beginning(path)
        _expect_text(beginning, place)
        unpacking = _unpacking(beginning)
        with path.open("rb") if unpacking is None else unpacking(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise ValueError(f"{place} does not exist") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as fault:
        raise ValueError(f"{place} cannot be read ({getattr(fault, 'strerror', None) or fault})") from None


def file_place(path: Path, where: str) -> str:
    """Name of the file ``path`` in messages. It begins with the setting ``where``, unless ``where`` is empty."""
    return f"{where}: '{path}'" if where else str(path)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LONGEST_SIGN)


def _unpacking(beginning: bytes) -> Callable[[Path, str], Any] | None:
    return next((opening for sign, opening in PACKED.items() if re.match(sign, beginning)), None)


def _expect_text(beginning: bytes, place: str) -> None:
    archive = next((name for sign, name in ARCHIVES.items() if beginning.startswith(sign)), None)
    if archive is not None:
        raise ValueError(f"{place}: must be a text or a table (an archive, {archive}, given); unpack it")
    encoding = next((name for sign, name in OTHER_ENCODINGS.items() if beginning.startswith(sign)), None)
    if encoding is not None:
        raise ValueError(f"{place} is not UTF-8 text ({encoding}, by its first bytes); convert it")
