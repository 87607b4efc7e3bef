"""Text in three splits, from a folder with train, valid and test files, from one file, from tables, or from the hub."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from nextword.runtime.corpora.open import is_hub_name, is_published, of_files, open_corpus, published, split_named
from nextword.runtime.corpora.open import lines as lines_of
from nextword.runtime.corpora.packed import file_text
from nextword.runtime.corpora.part_names import PARTS, file_names, is_saved_set, part_files, table_ending, text_files

SINGLE_FILE_SHARES = (0.90, 0.05)
"""Splits of a single file by lines: 90 % for training, then 5 % for validation, and the last 5 % for testing."""


@dataclass(frozen=True)
class TextParts:
    """The texts of the three splits. ``source`` names the data, and ``split`` says how they were split."""

    train: str
    validation: str
    test: str
    source: str
    split: str

    @property
    def sha256(self) -> str:
        """SHA-256 checksum over the three texts, in order."""
        return hashlib.sha256("\0".join((self.train, self.validation, self.test)).encode()).hexdigest()


def read_parts(
    data: Path | str, where: str = "task.data", text_column: str | int = "text", files: Mapping[str, str] | None = None
) -> TextParts:
    """Reads the splits of ``data``: a folder, one file, or a data set on the hub (``name`` or ``name:config``).

    Messages name the setting ``where``. ``text_column`` is the column with the text of a table: its name or, if the
    file has no header, its number from 0. ``files`` has the names of the files for "train", "valid" and "test" in the
    folder ``data``; None: the files are found by name.

    Raises:
        ValueError: If the data do not exist, a split is missing or empty, a file is not UTF-8, or a file has too few
            lines to be split.
    """
    path = Path(data)
    if files is not None:
        named = {"train": files["train"], "validation": files["valid"], "test": files["test"]}
        found = {part: [_named(path, name, where)] for part, name in named.items()}
        return _of_files(found, path, where, text_column)
    if path.is_file() or is_saved_set(path):
        return _cut(path, where, text_column)
    if path.is_dir() and not is_published(path):
        return _of_files({part: part_files(path, part, where) for part in PARTS}, path, where, text_column)
    nothing = f"'{path}' does not exist. Give a text file, or a folder with train.txt, valid.txt and test.txt."
    if not (path.is_dir() or (isinstance(data, str) and (Path(data.partition(":")[0]).is_dir() or is_hub_name(data)))):
        raise ValueError(f"{where}: {nothing}")
    return _of_splits(data, where, text_column)


def _cut(path: Path, where: str, text_column: str | int) -> TextParts:
    files = [path] if path.is_file() else text_files(path)
    table = table_ending(files[0]) is not None
    lines = list(of_files(files, where, text_column)) if table else _lines(_read(path, where))
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
                f"{where}: '{path}' has {len(lines)} lines, and the {part} split would be empty. Give at least 20 "
                f"lines of text, or a folder with three files."
            )
    column = f", column '{text_column}'" if table else ""
    return TextParts(**texts, source=path.name, split=f"one file by line position, 90/5/5 %{column}")


def _lines(text: str) -> list[str]:
    return [piece for line in text.splitlines(keepends=True) for piece in lines_of(line)]


def _of_files(found: Mapping[str, list[Path]], folder: Path, where: str, text_column: str | int) -> TextParts:
    texts = {}
    for part, paths in found.items():
        if not paths:
            raise ValueError(f"{where}: no {part} text in '{folder}'. Looked for: {file_names(part)} and the like.")
        tables = table_ending(paths[0]) is not None
        texts[part] = "".join(of_files(paths, where, text_column)) if tables else _read_all(paths, where)
        _expect_text(texts[part], ", ".join(map(str, paths)), where)
    column = f", column '{text_column}'" if any(table_ending(paths[0]) for paths in found.values()) else ""
    return TextParts(**texts, source=folder.name, split=f"files{column}")


def _of_splits(data: Path | str, where: str, text_column: str | int) -> TextParts:
    splits = published(data, where)
    texts = {}
    for part in PARTS:
        name = split_named(splits, part)
        if name is None:
            raise ValueError(f"{where}: '{data}' has no {part} split, only {', '.join(splits)}.")
        texts[part] = "".join(open_corpus(splits[name], where, text_column=text_column))
        _expect_text(texts[part], f"{data} ({name})", where)
    return TextParts(**texts, source=Path(data).name, split=f"splits, column '{text_column}'")


def _named(folder: Path, name: str, where: str) -> Path:
    if not (folder / name).is_file():
        raise ValueError(f"{where}: no file '{name}' in '{folder}'.")
    return folder / name


def _read_all(paths: Sequence[Path], where: str) -> str:
    # every text except the last gets a line end, so that no word is joined across two files
    *before, last = (_read(path, where) for path in paths)
    return "".join([*(text if text.endswith("\n") else f"{text}\n" for text in before), last])


def _read(path: Path, where: str) -> str:
    # line ends are not changed, because bits per byte count the bytes of the file, except a byte order mark
    text = file_text(path, where)
    _expect_text(text, str(path), where)
    return text


def _expect_text(text: str, name: str, where: str) -> None:
    if not text.strip():
        raise ValueError(f"{where}: '{name}' is empty.")


# -- The numbers of articles and words of a text (F2-Softmax, table 5).

_TITLE = re.compile(r"(?:\A|^[ \t]*\n) ?= (?!= ).+ =[ \t]*(?=\n[ \t]*$)", re.MULTILINE)
"""An article's title in WikiText, on a line between empty lines. Titles of sections have more than one "="."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")


class TextCounts(NamedTuple):
    """The numbers of articles and words of a text."""

    articles: int
    words: int


def text_counts(text: str) -> TextCounts:
    """The numbers of articles and words of a text.

    An article begins at a title in WikiText's form, " = Title = ". In a text without titles, each paragraph (separated
    by blank lines) is an article. Without titles and blank lines, each line is one. Words are separated by white space.
    """
    words = sum(len(line.split()) for line in text.splitlines())
    return TextCounts(articles=len(_titles(text)) or _pieces(text), words=words)


def articles(text: str) -> list[str]:
    r"""The articles of a text in WikiText's format; empty without titles. The first includes text before its title.

    >>> [one.split()[1] for one in articles(" = Valkyria = \n\n A game . \n \n = Tempest = \n\n A play . \n")]
    ['Valkyria', 'Tempest']
    """
    titles = _titles(text)
    return [text[begin:end] for begin, end in pairwise([0, *titles[1:], len(text)])] if titles else []


def _titles(text: str) -> list[int]:
    return [found.start() for found in _TITLE.finditer(text)]


def _pieces(text: str) -> int:
    paragraphs = [one for one in _PARAGRAPH_END.split(text.strip()) if one]
    return len(paragraphs) if len(paragraphs) > 1 else sum(bool(line.strip()) for line in text.splitlines())
