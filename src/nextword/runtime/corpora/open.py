"""Opens files, folders, tables and data sets on the Hugging Face hub as lines of text, through ``datasets``.

The text of a table row is one line or several, and it ends with a line end. Plain text is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.runtime.corpora.packed import is_packed
from nextword.runtime.corpora.part_names import (
    PARTS,
    is_text,
    part_files,
    separator_of,
    table_ending,
    text_files,
    words_for,
)
from nextword.runtime.corpora.row_files import (
    as_one_error,
    is_stored,
    readable,
    rows_of_packed_text,
    rows_of_tables,
    stored_table,
    table_rows,
)
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

Batch = Mapping[str, Sequence[Any]]
"""Some rows, as values by column."""

SPAN = 1 << 20
"""Number of bytes of a text file that are read at a time."""

IDS = ("input_ids", "attention_mask")
"""Columns of a tokenised table."""

FIRST_ROWS = 1000
"""Number of rows that are read to find the columns of a table."""

LONGEST_LINE = 1 << 16
"""Maximum number of characters of a line. Longer lines are split, because a corpus such as text8 may be one line."""

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(:[\w.-]+)?")


@dataclass(frozen=True)
class Corpus:
    """Rows of a data set, and how to extract their text.

    Attributes:
        rows: A ``Dataset``, or an ``IterableDataset`` if the data set is read as a stream.
        columns: Names of the columns.
        lines: Function that returns the lines in a batch of rows, with line ends. None: the rows have ``input_ids``
            instead of text.
        source: A short name, for reports.
        identity: A text that changes if the data change, as far as a change is visible without reading the data.
        batch_size: Number of rows per batch; None: any number.
    """

    rows: Any
    columns: tuple[str, ...]
    lines: Callable[[Batch], list[str]] | None
    source: str
    identity: str
    batch_size: int | None = None

    def __iter__(self) -> Iterator[str]:
        """All lines of the corpus. ValueError if it has token ids instead of text."""
        if self.lines is None:
            raise ValueError(f"'{self.source}' has token ids, no text")
        with readable(self.source):
            for batch in self.rows.iter(batch_size=self.batch_size or 1000):
                yield from self.lines(batch)


def lines(text: str) -> Iterator[str]:
    r"""Yields the lines of ``text`` with their line ends. Lines longer than ``LONGEST_LINE`` are split.

    >>> list(lines("a\n\nb\r\nc"))
    ['a\n', '\n', 'b\r\n', 'c']
    """
    # splitlines is not used, because it also splits at form feeds and other marks that are not line ends in a file
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin, begin + LONGEST_LINE) + 1
        if not end and begin + LONGEST_LINE < len(text):
            space = text.rfind(" ", begin + 1, begin + LONGEST_LINE)
            end = space if space > begin else begin + LONGEST_LINE
        yield text[begin : end or len(text)]
        begin = end or len(text)


def open_corpus(
    data: str | Path | Dataset | IterableDataset,
    where: str,
    *,
    text_column: str | int = "text",
    split: str | None = None,
    streaming: bool = True,
) -> Corpus:
    """Opens a text file, a table, a folder, a data set on the hub, or a loaded data set, as a corpus.

    Args:
        data: The path, the name on the hub (``name`` or ``name:config``), or the loaded data set.
        where: Name of the setting, for messages.
        text_column: The column with the text, by name, or by number from 0 if a file has no header.
        split: Split of a folder or of a data set on the hub. None: the training split, or all files of a folder without
            splits.
        streaming: Whether tables are streamed. If not, ``datasets`` first stores them in its cache.

    Raises:
        ValueError: If the data, split or column do not exist.
    """
    if not isinstance(data, str | Path):
        _expect_no_split(split, "one data set", where)
        return _of_rows(data, text_column, "a data set", where, _identity_of_rows(data))
    path, config = _located(data)
    if path is not None and path.is_file():
        _expect_no_split(split, f"'{data}' is one file, which", where)
        return of_files([path], where, text_column, streaming)
    if path is not None and not is_published(path):
        return of_files(_files_of(path / config if config else path, split, where), where, text_column, streaming)
    if path is None and not is_hub_name(str(data)):
        raise ValueError(f"{where}: '{data}' does not exist. Give a text file, a table, a folder or a name on the hub.")
    found = published(data, where, streaming)
    name = split_named(found, split or "train")
    if name is None:
        raise ValueError(f"{where}: '{data}' has no split '{split or 'train'}'. There are: {', '.join(found)}.")
    identity = f"{data} ({name}, {found[name].info.version}, {found[name].info.dataset_size} bytes)"
    return _of_rows(found[name], text_column, str(data), where, identity)


def of_files(files: Sequence[Path], where: str, text_column: str | int, streaming: bool = True) -> Corpus:
    """Opens ``files`` of one format, one after the other, as a corpus. See ``open_corpus`` for the other arguments."""
    endings = {table_ending(file) for file in files}
    if len(endings) > 1:
        raise ValueError(f"{where}: files of several kinds, {', '.join(str(file) for file in files)}. Name one.")
    source = ", ".join(file.name for file in files[:2]) + (f" and {len(files) - 2} more" if len(files) > 2 else "")
    identity = "; ".join(f"{file.resolve()} ({file.stat().st_size}, {file.stat().st_mtime_ns})" for file in files)
    if None in endings and any(is_packed(file, where) for file in files):
        # a compressed file can be read only from its beginning, so its pieces are read as a stream
        rows = rows_of_packed_text(files, where, streaming, identity)
        return Corpus(rows, ("path", "text"), _lines_of_pieces, source, identity, batch_size=1)
    if None in endings:
        return _of_text(files, source, identity, where)
    if is_stored(files[0]):
        return _of_rows(stored_table(files, where, streaming), text_column, source, where, identity)
    return _of_table(files, text_column, source, where, identity, streaming)


def published(data: str | Path, where: str, streaming: bool = True) -> Mapping[str, Any]:
    """Opens a hub data set, or a folder with the hub's layout, as a mapping from split name to rows.

    Raises:
        ValueError: If the data cannot be read.
    """
    from datasets import load_dataset

    path, config = _located(data)
    name, _, hub_config = str(data).partition(":")
    name, config = (str(path), config) if path is not None else (name, hub_config)
    what = f"{where}: '{data}' is not a file or folder, and no data set of the hub could be read"
    return dict(as_one_error(lambda: load_dataset(name, config or None, streaming=streaming), what))


def split_named(splits: Iterable[str], split: str) -> str | None:
    """The name of ``split`` in ``splits``: ``split`` itself, or else a synonym. None if neither is in ``splits``.

    >>> split_named(["train", "dev"], "validation")
    'dev'
    """
    there = list(splits)
    return next((word for word in words_for(split) if word in there), None)


def is_hub_name(data: str) -> bool:
    """Whether ``data`` may be a hub name (``name`` or ``owner/name``, optionally with ``:config``), not a file name."""
    is_file = table_ending(Path(data)) is not None or (bool(Path(data).suffix) and is_text(Path(data)))
    return HUB_NAME.fullmatch(data) is not None and not is_file


def is_streamed(rows: Any) -> bool:
    """Whether ``rows`` are a stream, an ``IterableDataset``."""
    from datasets import IterableDataset

    return isinstance(rows, IterableDataset)


def keeps_a_buffer(rows: Any) -> bool:
    """Whether the stream ``rows`` is shuffled through a buffer, whose rows are lost if the stream is resumed."""
    waiting = [getattr(rows, "_ex_iterable", None)]
    while waiting:
        part = waiting.pop()
        if type(part).__name__.startswith("BufferShuffled"):
            return True
        waiting += [inner for inner in (getattr(part, "ex_iterable", None),) if inner is not None]
        waiting += getattr(part, "ex_iterables", [])
    return False


def _located(data: str | Path) -> tuple[Path | None, str]:
    """A path that exists, and the text after its colon. The path is None if the name must be a hub name."""
    if Path(data).exists():
        return Path(data), ""
    name, _, config = str(data).rpartition(":")
    return (Path(name), config) if name and Path(name).is_dir() else (None, "")


def is_published(folder: Path) -> bool:
    """Whether the README of a folder has an entry ``configs``, as data sets on the hub have."""
    card = folder / "README.md"
    return card.is_file() and re.search(r"\A---\n(.*\n)*?configs:", card.read_text(encoding="utf-8")) is not None


def _expect_no_split(split: str | None, what: str, where: str) -> None:
    if split is not None:
        raise ValueError(f"{where}: {what} has no splits to choose from, but split '{split}' was given. Leave it out.")


def _files_of(folder: Path, split: str | None, where: str) -> list[Path]:
    found = part_files(folder, split or "train", where)
    if found:
        return found
    there = text_files(folder)
    parts = [part for part in PARTS if part_files(folder, part, where)]
    if not there:
        raise ValueError(f"{where}: no text files and no tables in '{folder}'.")
    if parts:
        raise ValueError(f"{where}: no {split or 'train'} text in '{folder}', only of {', '.join(parts)}.")
    _expect_no_split(split, f"'{folder}' is a folder whose files name no parts, so it", where)
    return there


def _of_text(files: Sequence[Path], source: str, identity: str, where: str) -> Corpus:
    # as a table of its pieces, so that it can be read in parallel and resumed like a table, and no copy is stored
    from datasets import Dataset

    spans = [
        (str(file), begin, min(begin + SPAN, file.stat().st_size))
        for file in files
        for begin in range(0, file.stat().st_size, SPAN)
    ]
    if not spans:
        raise ValueError(f"{where}: '{source}' is empty.")
    paths, begins, ends = zip(*spans, strict=True)
    rows = Dataset.from_dict({"path": paths, "begin": begins, "end": ends})
    return Corpus(rows, ("path", "begin", "end"), _lines_of_spans, source, identity, batch_size=1)


def _lines_of_pieces(batch: Batch) -> list[str]:
    return [line for text in batch["text"] for line in lines(text)]


def _of_table(
    files: Sequence[Path], text_column: str | int, source: str, where: str, identity: str, streaming: bool
) -> Corpus:
    with_header, column = isinstance(text_column, str), str(text_column)
    # reads several rows, because rows may have different keys
    firsts = (islice(table_rows(file, where, with_header), FIRST_ROWS) for file in files)
    names, *others = (list(dict.fromkeys(name for row in first for name in row.content)) for first in firsts)
    if separator_of(files[0]) is not None and any(other != names for other in others):
        raise ValueError(f"{where}: '{files[0]}' and others differ in their columns; give them one by one.")
    ids = [name for name in IDS if name in names] if "input_ids" in names else None
    if ids is None:
        _expect_column(column, names, source, where)
    rows = rows_of_tables(files, ids or [column], where, with_header, streaming, identity)
    return Corpus(rows, tuple(ids or [column]), None if ids else _LinesOfRows(column, source), source, identity)


def _lines_of_spans(batch: Batch) -> list[str]:
    spans = zip(batch["path"], batch["begin"], batch["end"], strict=True)
    return [line for path, begin, end in spans for line in lines(_span(Path(path), begin, end))]


def _span(path: Path, begin: int, end: int) -> str:
    """The lines that begin in a piece of a file. The last line is read to its end."""
    with path.open("rb") as file:
        if begin:
            file.seek(begin - 1)
            file.readline()  # skips the rest of a line that began before the piece
        start = file.tell()
        data = file.read(max(0, end - start))
        if data and not data.endswith(b"\n"):
            data += file.readline()
    try:
        return data.decode("utf-8" if begin else "utf-8-sig")  # a byte order mark is not part of the text
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' is not UTF-8 text (byte {start + error.start}).") from None


def _of_rows(rows: Any, text_column: str | int, source: str, where: str, identity: str) -> Corpus:
    names = getattr(rows, "column_names", None)
    if isinstance(names, dict) or not hasattr(rows, "map"):
        kind = f"splits {', '.join(names)}" if isinstance(names, dict) else type(rows).__name__
        raise ValueError(f"{where}: must be a path, a name on the hub or one data set ({kind} given)")
    if names is None:  # the columns of a stream may be unknown until a row is read
        first = as_one_error(lambda: next(iter(rows), None), f"{where}: '{source}' cannot be read")
        if first is None:
            raise ValueError(f"{where}: '{source}' is empty.")
        names = list(first)
    if "input_ids" in names:
        return Corpus(rows, tuple(names), None, source, identity)
    column = str(text_column)
    _expect_column(column, names, source, where)
    return Corpus(rows, tuple(names), _LinesOfRows(column, source), source, identity)


def _expect_column(column: str, names: Sequence[str], source: str, where: str) -> None:
    if column not in names:
        part, dot, _ = where.rpartition(".")  # for example, the text column of task.data is task.text_column
        usual = "--field text=COLUMN" if named("field") != "field" else named(f"{part}{dot}text_column", "COLUMN")
        raise ValueError(
            f"{where}: '{source}' has no column '{column}', only {', '.join(names)}. Name the one with the text: "
            f"{usual}."
            + (" For pairs: task.source_field=COLUMN task.target_field=COLUMN." if where == "task.data" else "")
        )


@dataclass(frozen=True)
class _LinesOfRows:
    column: str
    source: str

    def __call__(self, batch: Batch) -> list[str]:
        found: list[str] = []
        for text in batch[self.column]:
            if not isinstance(text, str | None):
                raise ValueError(
                    f"'{self.source}': column '{self.column}' must hold text, has {type(text).__name__} ({text!r})"
                )
            found += lines(text if text and text.endswith("\n") else f"{text or ''}\n")
        return found


def _identity_of_rows(rows: Any) -> str:
    fingerprint = getattr(rows, "_fingerprint", None)
    if fingerprint is not None and not is_streamed(rows):
        return f"data set {fingerprint}"
    return f"stream of {rows.column_names} ({getattr(rows, 'num_shards', None)} parts)"
