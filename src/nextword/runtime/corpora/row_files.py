"""Reads rows of tables in these formats: JSON lines, a JSON list, .csv, .tsv, .parquet and .arrow."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from nextword.runtime.corpora.packed import Digest, file_place, gathered, numbered_lines
from nextword.runtime.corpora.part_names import STORED, is_json_lines, separator_of, table_ending
from nextword.runtime.files import disk_full_explained, full_disk
from nextword.settings.config import expect_whole_characters


def table_rows(path: Path, where: str, with_header: bool = True, skip_empty: bool = True) -> Iterator[JsonLine]:
    """Yields the rows of the file ``path``, whose ending gives its format. JSON that begins with ``[`` is one list.

    Messages name the setting ``where``. Without a header, the columns of a .csv or .tsv file are numbered from 0. If
    ``skip_empty`` is true, empty JSON lines are skipped; otherwise they are errors.

    Raises:
        ValueError: If the file cannot be read or has no rows. The message names the file and the row.
    """
    empty = True
    for row in _rows(path, where, with_header, skip_empty):
        empty = False
        yield row
    if empty:
        raise ValueError(f"{file_place(path, where)} is empty.")


def is_stored(path: Path) -> bool:
    """Whether the file is a table whose columns have types, which ``stored_table`` reads."""
    return table_ending(path) in STORED


def stored_table(files: Sequence[Path], where: str, streaming: bool = True) -> Any:
    """The rows of .parquet or .arrow files of one format, as a data set. ValueError if a file cannot be read.

    With ``streaming``, rows are read from the files. Otherwise ``datasets`` first stores them in its cache.
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
    """In this block, converts errors of libraries that read files to a ``ValueError`` that names ``source``."""
    try:
        yield
    except Exception as error:
        expect_cache_room(error)
        library = type(error).__module__.split(".")[0]
        if library not in ("datasets", "pandas", "pyarrow") and not isinstance(error, UnicodeDecodeError):
            raise
        raise ValueError(f"'{source}' cannot be read: {_first_line(error)}") from error


def expect_cache_room(error: Exception) -> None:
    """Raises DiskFullError if ``error`` means that the disk with the cache of ``datasets`` is full."""
    from datasets import config

    with disk_full_explained(f"{config.HF_DATASETS_CACHE} (HF_DATASETS_CACHE)"):
        if full_disk(error) is not None:
            raise error


def as_one_error(reading: Callable[[], Any], what: str) -> Any:
    """Returns ``reading()``. Its errors become a ValueError whose message begins with ``what``.

    A ValueError of our readers that ``datasets`` has wrapped in another error is raised unchanged.
    """
    try:
        return reading()
    except Exception as error:
        expect_cache_room(error)
        if isinstance(error.__cause__, ValueError):  # an error of our readers inside an error of datasets
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


# -- Rows of .csv and .tsv files. Every cell is text, and a row with more cells than the header is an error.
#
# Cells are not converted to numbers or dates, and NA and null are words. Blank lines are not rows.

SHOWN = 60
"""Maximum number of characters of a row in a message."""


def separated_rows(path: Path, where: str, separator: str, with_header: bool = True) -> Iterator[JsonLine]:
    r"""Yields each row of a plain or compressed file. The row's ``content`` maps column names to cells.

    Cells missing at the end of a row are empty. The separator is "," or "\t". In a .tsv a quotation mark is text. A
    .csv needs quotation marks around text with commas. Without a header, the names of the columns are their numbers
    from "0".

    Raises:
        ValueError: If the file cannot be read or is empty, two columns have the same name, quotes do not close, or a
            row has more cells than the header. The message names the file and the line.
    """
    place = file_place(path, where)
    records = _records(path, where, separator)
    first = next(records, None)
    if first is None:
        raise ValueError(f"{place} is empty.")
    names = first[1] if with_header else [str(number) for number in range(len(first[1]))]
    doubled = next((name for name in names if names.count(name) > 1 and name), None)
    if doubled is not None:
        raise ValueError(f"{place}: must name each column once ('{doubled}' comes twice); rename one of them")
    for number, (line, cells) in enumerate(records if with_header else chain([first], records), 1):
        if len(cells) > len(names):
            shown = separator.join(cells)
            quote = "quote a text with commas, and end no line with one"
            raise ValueError(
                f"{place}, line {line}: must have {len(names)} cells as the first row has ({len(cells)} given: "
                f"{shown[:SHOWN]}{'...' * (len(shown) > SHOWN)}); "
                f"{quote if separator == ',' else 'a text must have no tab'}"
            )
        row = dict(zip(names, [*cells, *[""] * (len(names) - len(cells))], strict=True))
        yield JsonLine(number, f"{place}, line {line}", row)


def _records(path: Path, where: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    place, lines = file_place(path, where), numbered_lines(path, where)
    for number, line in lines:
        content = line.rstrip("\r\n")
        if number == 1 and "\r" in content and not line.endswith("\n"):
            raise ValueError(
                f"{place}: must have line ends \\n or \\r\\n (single carriage returns given, as of "
                "an old Macintosh); convert it"
            )
        if not content.strip(" \t") if separator == "," else not content:
            continue
        if separator == "\t" or '"' not in content:
            yield number, content.split(separator)
        else:
            yield number, _quoted(chain([line], (rest for _, rest in lines)), f"{place}, line {number}")


def _quoted(lines: Iterator[str], place: str) -> list[str]:
    """The cells of a row with quotes. Such a row may have several lines."""
    try:
        with cells_up_to(sys.maxsize):  # the length of a text is not limited
            return next(csv.reader(lines, strict=True))
    except csv.Error as fault:
        raise ValueError(
            f"{place}: must have quotation marks only around whole cells, and double ones in them ({fault}); correct it"
        ) from None


@contextlib.contextmanager
def cells_up_to(characters: int) -> Iterator[None]:
    """In this block, Python's module ``csv`` accepts cells of at most ``characters`` characters."""
    limit = csv.field_size_limit(characters)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


# -- Files with one JSON object per line, or with one JSON list. Every error is reported, and no row is dropped.


@dataclass(frozen=True)
class JsonLine:
    """A JSON line, list entry or table row, with its number from 1 and its location (``place``) for messages."""

    number: int
    place: str
    content: dict[str, Any]


def json_lines(
    path: Path, where: str = "", digest: Digest | None = None, skip_empty: bool = False
) -> Iterator[JsonLine]:
    """Yields the objects of a plain or compressed file with one object per line, or with one list of objects.

    Empty lines are skipped with ``skip_empty``, otherwise they are errors.

    Raises:
        ValueError: If the file cannot be read, or a line is empty, not JSON, not an object, or has a duplicate key or
            half a character. The message names the file and the line.
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
            f"{place}: not a whole JSON list ({fault}); download it again, or give one object per line"
        ) from None
    for number, entry in enumerate(entries, 1):
        entry_position = f"{place}, entry {number}"
        if not isinstance(entry, dict):
            raise ValueError(f"{entry_position}: must be a JSON object ({json.dumps(entry)[:40]} given)")
        expect_whole_characters(json.dumps(entry, ensure_ascii=False), entry_position)
        yield JsonLine(number, entry_position, entry)


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        # without the line end, an error at the end of a line is reported for this line and not for the next
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
    if "\\ud" in line or "\\uD" in line:  # JSON can contain half a character only in this form
        expect_whole_characters(json.dumps(content, ensure_ascii=False), place)
    return content


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key '{next(key for key in keys if keys.count(key) > 1)}' comes twice")
    return content


# -- Rows of files that this module reads itself, as a data set: as a stream, or from the cache of ``datasets``.

PIECE = 1 << 20
"""A compressed text is cut into rows of this number of characters or more (up to a line end)."""


def rows_of_tables(
    files: Sequence[Path], columns: Sequence[str], where: str, with_header: bool, streaming: bool, identity: str
) -> Any:
    """Makes a data set of the rows of ``files`` (JSON lines, .csv or .tsv), file after file.

    The ``columns`` are ``input_ids`` and perhaps ``attention_mask``, or a column with text. With ``streaming``,
    rows are read from the files. Otherwise ``datasets`` first stores them in its cache, under a key that contains
    ``identity``.

    Raises:
        ValueError: If a file cannot be read or a value in it is not text. The message names the file and the row. For
            a stream, the error is raised during reading.
    """
    from datasets import Features, List, Value

    kind = List(Value("int64")) if "input_ids" in columns else Value("large_string")
    given = {"columns": tuple(columns), "where": where, "with_header": with_header}
    return _made(_values, files, given, Features(dict.fromkeys(columns, kind)), streaming, identity, where)


def rows_of_packed_text(files: Sequence[Path], where: str, streaming: bool, identity: str) -> Any:
    """Makes a data set of text ``files``. A row has some lines of a file (``text``) and the file's path (``path``)."""
    from datasets import Features, Value

    features = Features({"path": Value("string"), "text": Value("large_string")})
    return _made(_pieces, files, {"where": where}, features, streaming, identity, where)


def _made(
    reading: Callable[..., Iterator[Any]],
    files: Sequence[Path],
    given: dict[str, Any],
    features: Any,
    streaming: bool,
    identity: str,
    where: str,
) -> Any:
    from datasets import Dataset, IterableDataset

    named = {"files": [str(file) for file in files], **given}
    if streaming:
        return IterableDataset.from_generator(reading, gen_kwargs=named)
    named |= {"identity": identity}
    return as_one_error(
        lambda: Dataset.from_generator(reading, features=features, gen_kwargs=named), f"{where}: cannot be stored"
    )


def _values(
    files: Sequence[str], columns: Sequence[str], where: str, with_header: bool, identity: str = ""
) -> Iterator[dict[str, Any]]:
    for file in files:
        for row in table_rows(Path(file), where, with_header):
            values = {column: row.content.get(column) for column in columns}
            text = values[columns[0]]
            if columns[0] != "input_ids" and not isinstance(text, str | None):
                raise ValueError(f"{row.place}: '{columns[0]}' must be text ({text!r} given)")
            yield values


def _pieces(files: Sequence[str], where: str, identity: str = "") -> Iterator[dict[str, str]]:
    for file in files:
        for piece in gathered((line for _, line in numbered_lines(Path(file), where)), PIECE):
            yield {"path": file, "text": "".join(piece)}
