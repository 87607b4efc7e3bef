"""Rows of the files that we read ourselves as data sets: a stream, or what ``datasets`` has stored in its cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nextword.runtime.corpora.files.packed import gathered, numbered_lines
from nextword.runtime.corpora.files.row_files import as_one_error, table_rows

PIECE = 1 << 20
"""Characters of a packed text that are one row."""


def rows_of_tables(
    files: Sequence[Path], columns: Sequence[str], where: str, with_header: bool, streaming: bool, identity: str
) -> Any:
    """Some columns of tables; what else the rows have does not matter.

    Args:
        files: JSON lines, or .csv or .tsv files, one after the other.
        columns: ``input_ids`` and perhaps ``attention_mask``, or the one with the text.
        where: Name of the setting that holds the files, for messages.
        with_header: Whether the first row of a .csv or .tsv names the columns.
        streaming: They are read as they are; otherwise ``datasets`` first stores the rows in its cache.
        identity: Of the files as they are now: what was stored of others is not taken.

    Raises:
        ValueError: A file cannot be read or a value in it is no text; the message names file and row. Of a stream, when
            it is read.
    """
    from datasets import Features, List, Value

    kind = List(Value("int64")) if "input_ids" in columns else Value("large_string")
    given = {"columns": tuple(columns), "where": where, "with_header": with_header}
    return _made(_values, files, given, Features(dict.fromkeys(columns, kind)), streaming, identity, where)


def rows_of_packed_text(files: Sequence[Path], where: str, streaming: bool, identity: str) -> Any:
    """Pieces of some lines each as ``text``, with the ``path`` of their file; arguments as of ``rows_of_tables``."""
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
