"""Plain text in three parts: a folder with train, valid and test files, or one file cut by line position."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

NAMES = {
    "train": ("train.txt", "train"),
    "validation": ("valid.txt", "validation.txt", "dev.txt", "valid", "validation", "dev"),
    "test": ("test.txt", "test"),
}
"""File names looked for in a folder, by part, first found first taken."""

SINGLE_FILE_SHARES = (0.90, 0.05)
"""Of the lines of a single file: the first 90 % train, the next 5 % validate, the last 5 % test."""


@dataclass(frozen=True)
class TextParts:
    """The three texts, how they were told apart, and the SHA-256 of all three in order."""

    train: str
    validation: str
    test: str
    source: str
    split: str

    @property
    def sha256(self) -> str:
        """Checksum over the three parts."""
        return hashlib.sha256("\0".join((self.train, self.validation, self.test)).encode()).hexdigest()


def read_parts(path: Path, where: str = "task.data") -> TextParts:
    """Reads a folder or a single file.

    Args:
        path: The folder or file.
        where: Name of the setting that holds the path, for messages.

    Raises:
        ValueError: Nothing there, a part is missing or empty, not UTF-8, or too few lines to cut.
    """
    if path.is_dir():
        texts = {part: _read(_find(path, part, where), where) for part in NAMES}
        return TextParts(**texts, source=path.name, split="files")
    if not path.exists():
        raise ValueError(
            f"{where}: '{path}' does not exist. Give a text file, or a folder with train.txt, valid.txt and test.txt."
        )
    lines = _read(path, where).splitlines(keepends=True)
    first = int(SINGLE_FILE_SHARES[0] * len(lines))
    second = first + int(SINGLE_FILE_SHARES[1] * len(lines))
    texts = {
        "train": "".join(lines[:first]),
        "validation": "".join(lines[first:second]),
        "test": "".join(lines[second:]),
    }
    for part, text in texts.items():
        if not text.strip():
            raise ValueError(
                f"{where}: '{path}' has {len(lines)} lines, and the {part} part would be empty. Give at least 20 "
                f"lines of text, or a folder with three files."
            )
    return TextParts(**texts, source=path.name, split="one file by line position, 90/5/5 %")


def _find(folder: Path, part: str, where: str) -> Path:
    for name in NAMES[part]:
        if (folder / name).is_file():
            return folder / name
    raise ValueError(f"{where}: no {part} text in '{folder}'. Looked for: {', '.join(NAMES[part])}.")


def _read(path: Path, where: str) -> str:
    try:
        # newline="" keeps \r\n as it is: bits per byte count the bytes of the file.
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: '{path}' is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise ValueError(f"{where}: cannot read '{path}' ({error.strerror or error}).") from None
    if not text.strip():
        raise ValueError(f"{where}: '{path}' is empty.")
    return text
