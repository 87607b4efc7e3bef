"""LogicNLG's original files: sentences about tables, and the tables as text.

A folder has

    train_lm.json, val_lm.json, test_lm.json    {table: [[sentence, linked columns, title, template], ...], ...}
    all_csv/                                    the tables, with "#" between cells and column names in the first line

Source: Chen, Chen, Su, Chen and Wang, "Logical Natural Language Generation from Open-Domain Tables", ACL 2020.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.pairs import OtherFiles, PairParts, PairReading, dealt
from nextword.runtime.corpora.part_names import PARTS

TABLES = "all_csv"
"""Folder of the tables."""

FROM = "download LogicNLG from github.com/wenhuchen/LogicNLG (data/, and all_csv.zip unpacked)"
"""Source of the data, for messages."""

ENTRY = "[sentence, [numbers of columns], title, template]"
"""Format of a sentence in the files, for messages."""


@dataclass(frozen=True)
class CsvTable:
    """A table as text, named after its file. Each row has as many cells as the header."""

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TableSentence:
    """A human sentence about a table.

    ``title`` is the table's caption. ``columns`` are the indices (from 0) of the columns that the sentence is about.
    """

    table: CsvTable
    title: str
    columns: tuple[int, ...]
    sentence: str

    @property
    def target(self) -> str:
        """The sentence with white space collapsed, as in PLOG."""
        return " ".join(self.sentence.split())


@dataclass(frozen=True)
class LogicNLG:
    """The sentences of each split, in the order of the files. ``source`` is the name of their folder."""

    train: Sequence[TableSentence]
    validation: Sequence[TableSentence]
    test: Sequence[TableSentence]
    source: str

    def others(self, one: TableSentence) -> list[TableSentence]:
        """The other test sentences about the table of the test sentence ``one``, which are further references."""
        others = list(self._tested[one.table.name])
        others.remove(one)
        return others

    @cached_property
    def _tested(self) -> dict[str, list[TableSentence]]:
        about: dict[str, list[TableSentence]] = defaultdict(list)
        for one in self.test:
            about[one.table.name].append(one)
        return about

    @property
    def sha256(self) -> str:
        """Checksum over all sentences with their tables, in order."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            for one in part:
                content = [one.table.name, one.title, one.columns, one.sentence, one.table.header, one.table.rows]
                digest.update(json.dumps(content).encode())
            digest.update(b"\0")
        return digest.hexdigest()


def read_logicnlg(folder: Path, where: str = "task.data") -> LogicNLG:
    """Reads a folder of LogicNLG. ``val_lm.json`` may also be called ``dev_lm.json`` or ``valid_lm.json``.

    Raises:
        ValueError: If a file or table is missing, empty, or in another format. The message names it.
    """
    if not folder.is_dir():
        raise ValueError(f"{where}: must be a folder with LogicNLG's files ('{folder}' given); {FROM}")
    files = {part: _file_of(folder, part, where) for part in PARTS}
    if not (folder / TABLES).is_dir():
        raise ValueError(f"{where}: '{folder}' has no folder {TABLES} with the tables; {FROM}")
    table = cache(lambda name: read_table(folder / TABLES / name))
    train, validation, test = (list(_sentences(path, folder / TABLES, table)) for path in files.values())
    return LogicNLG(train, validation, test, folder.name)


def read_table(path: Path) -> CsvTable:
    """Reads one table. Short rows get empty cells at the end, as in ``pandas.read_csv``.

    Raises:
        ValueError: If the file is empty or not text, has no rows, or a row has more cells than the header.
    """
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter="#")
    try:
        rows = [line for line in reader if line]
    except csv.Error as fault:
        raise ValueError(f"{path}, line {reader.line_num}: cannot be read as a table ({fault}); {FROM}") from None
    if len(rows) < 2:
        raise ValueError(
            f"{path}: must be names of columns and rows, '#' between cells ({len(rows)} lines given); {FROM}"
        )
    header = tuple(rows[0])
    for number, row in enumerate(rows[1:], 1):
        if len(row) > len(header):
            raise ValueError(f"{path}, row {number}: must have {len(header)} cells ({len(row)} given); {FROM}")
    cells = tuple((*row, *[""] * (len(header) - len(row))) for row in rows[1:])
    return CsvTable(path.name, header, cells)


def _names(part: str) -> list[str]:
    return [f"{word}_lm.json" for word in PARTS[part]]


def _file_of(folder: Path, part: str, where: str) -> Path:
    names = _names(part)
    files = [folder / name for name in names if (folder / name).is_file()]
    if len(files) > 1:
        raise ValueError(
            f"{where}: {files[0].name} and {files[1].name} in '{folder}' could each be the {part} split; keep one"
        )
    if not files:
        raise ValueError(f"{where}: no {part} split in '{folder}' (looked for {', '.join(names)}); {FROM}")
    return files[0]


def _sentences(path: Path, tables: Path, table: Any) -> Iterator[TableSentence]:
    content = _content(path)
    missing = [name for name in content if not (tables / name).is_file()]
    if missing:
        raise ValueError(
            f"{path}: {len(missing)} of its {len(content)} tables are not in {tables}, the first is '{missing[0]}'; "
            f"{FROM}"
        )
    for name, entries in content.items():
        for number, entry in enumerate(entries, 1):
            yield _sentence(entry, table(name), f"{path}, table '{name}', sentence {number}")


def _content(path: Path) -> dict[str, list[Any]]:
    try:
        content = json.loads(_text(path))
    except json.JSONDecodeError as fault:
        raise ValueError(f"{path}, line {fault.lineno}: must be JSON ({fault.msg}); {FROM}") from None
    form = f"must be {{table: [{ENTRY}, ...]}}"
    if not isinstance(content, dict):
        raise ValueError(f"{path}: {form} (a {type(content).__name__} given); {FROM}")
    for name, entries in content.items():
        if not isinstance(entries, list) or not entries:
            raise ValueError(f"{path}, table '{name}': {form} ({json.dumps(entries)[:40]} given); {FROM}")
    if not content:
        raise ValueError(f"{path}: {form} (no table given); {FROM}")
    return content


def _sentence(entry: Any, table: CsvTable, at: str) -> TableSentence:
    match entry:
        case [str(sentence), [*columns], str(title), *_] if sentence.strip() and columns:
            pass
        case _:
            raise ValueError(f"{at}: must be {ENTRY} ({json.dumps(entry)[:60]} given); {FROM}")
    for column in columns:
        if not isinstance(column, int) or not 0 <= column < len(table.header):
            raise ValueError(
                f"{at}: must name columns of its table by numbers from 0 to {len(table.header) - 1} ({column!r} given)"
            )
    return TableSentence(table, title, tuple(columns), sentence)


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        raise ValueError(f"{path}: cannot be read as UTF-8 text ({fault}); {FROM}") from None
    if not text.strip():
        raise ValueError(f"{path} is empty; {FROM}")
    return text


# -- The sentences as pairs: a table as plain text, and a sentence about it.


def table_text(one: TableSentence) -> str:
    """The caption, and the columns that a sentence is about: a line per row, with " | " between cells.

    >>> table = CsvTable("t", ("city", "games"), (("athens", "2"), ("london", "3")))
    >>> print(table_text(TableSentence(table, "hosts", (0, 1), "London had three")))
    hosts
    city | games
    athens | 2
    london | 3
    """
    lines = ([row[column] for column in one.columns] for row in (one.table.header, *one.table.rows))
    return "\n".join([one.title, *map(" | ".join, lines)])


def _read_pairs(folder: Path, reading: PairReading, where: str) -> PairParts:
    data = read_logicnlg(folder, where)

    def pairs() -> Iterator[tuple[str, Pair]]:
        for part in PARTS:
            for one in getattr(data, part):
                others = data.others(one) if part == "test" else []
                yield part, Pair(table_text(one), one.target, tuple(other.target for other in others))

    return dealt(pairs(), data.source, "files")


def _claims(folder: Path) -> bool:
    return (folder / TABLES).is_dir() and any((folder / name).is_file() for name in _names("train"))


TABLE_PAIRS = OtherFiles(_read_pairs, f"a folder with LogicNLG's files ({_names('train')[0]}, {TABLES})", _claims)
"""Reads a folder of LogicNLG as pairs."""
