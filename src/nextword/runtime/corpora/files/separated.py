"""Rows of .csv and .tsv files: every cell is text as it stands, and a row of other cells than the header is refused.

No numbers, no dates, and neither NA nor null is anything but a word. Lines that are blank are no rows.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from nextword.runtime.corpora.files.jsonl import JsonLine
from nextword.runtime.corpora.files.packed import file_place, numbered_lines

SHOWN = 60
"""Characters of a row that a message shows."""


def separated_rows(path: Path, where: str, separator: str, with_header: bool = True) -> Iterator[JsonLine]:
    r"""The rows of a file, plain or packed, by column; cells that a row lacks at its end are empty.

    Args:
        path: The file.
        where: Name of the setting that holds the path, for messages.
        separator: "," or "\t". In a .tsv a quotation mark is text; a .csv needs it around text with commas.
        with_header: Whether the first row names the columns; otherwise they are called by their numbers from "0".

    Raises:
        ValueError: The file cannot be read or is empty, two columns have one name, quotes do not close, or a row has
            more cells than the header; the message names file and line.
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
            raise ValueError(
                f"{place}, line {line}: must have {len(names)} cells as the first row has ({len(cells)} given: "
                f"{shown[:SHOWN]}{'...' * (len(shown) > SHOWN)}); {_remedy(separator)}"
            )
        row = dict(zip(names, [*cells, *[""] * (len(names) - len(cells))], strict=True))
        yield JsonLine(number, f"{place}, line {line}", row)


def _records(path: Path, where: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, and the line in which it begins."""
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
    """The cells of a row with quotes, which takes as many lines as there are in it."""
    limit = csv.field_size_limit(sys.maxsize)  # a text may be as long as it likes
    try:
        return next(csv.reader(lines, strict=True))
    except csv.Error as fault:
        raise ValueError(
            f"{place}: must have quotation marks only around whole cells, and double ones in them ({fault}); correct it"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _remedy(separator: str) -> str:
    return "quote a text with commas, and end no line with one" if separator == "," else "a text must have no tab"
