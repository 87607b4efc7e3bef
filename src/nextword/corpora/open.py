"""Opens files, folders, tables and data sets of the hub as lines of text, through ``datasets``.

A table's text in each row is a line, or several, and ends with a line end. Plain text is what stands in the file.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.corpora.part_names import PARTS, is_json_lines, is_text, part_files, table_ending, text_files, words_for

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

Batch = Mapping[str, Sequence[Any]]
"""Some rows, by column."""

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""What stands between the columns of a table, by its ending."""

QUOTING = {",": csv.QUOTE_MINIMAL, "\t": csv.QUOTE_NONE}
"""In a .tsv a quotation mark is text; a .csv needs it around text with commas."""

SPAN = 1 << 20
"""Bytes of a text file that are read together."""

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(:[\w.-]+)?")


@dataclass(frozen=True)
class Corpus:
    """Rows of a data set and how to get text out of them.

    Attributes:
        rows: A ``Dataset``, or an ``IterableDataset`` where it is read as a stream.
        columns: Names of its columns.
        lines: The lines in a batch of rows, line ends kept; None: the rows have ``input_ids``.
        source: A short name, for reports.
        identity: Changes where the data does, as far as that can be seen without reading it.
        batch_size: Rows to take together where this is not free.
    """

    rows: Any
    columns: tuple[str, ...]
    lines: Callable[[Batch], list[str]] | None
    source: str
    identity: str
    batch_size: int | None = None

    def __iter__(self) -> Iterator[str]:
        """All lines."""
        if self.lines is None:
            raise ValueError(f"'{self.source}' has token ids, no text")
        with readable(self.source):
            for batch in self.rows.iter(batch_size=self.batch_size or 1000):
                yield from self.lines(batch)


def lines(text: str) -> Iterator[str]:
    r"""The lines of a text with their line ends.

    >>> list(lines("a\n\nb\r\nc"))
    ['a\n', '\n', 'b\r\n', 'c']
    """
    # Not splitlines: it also cuts at form feeds and other marks that are no line ends in a file.
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end + 1
        yield text[begin:end]
        begin = end


def open_corpus(
    data: str | Path | Dataset | IterableDataset,
    where: str,
    *,
    text_column: str | int = "text",
    split: str | None = None,
    streaming: bool = True,
) -> Corpus:
    """A corpus from a path, a name on the hub or a data set.

    Args:
        data: Text file, table, folder of them, ``name`` or ``name:config`` on the hub, or a data set.
        where: Name of the setting, for messages.
        text_column: The column with the text, by name, or by number from 0 where a file has no header.
        split: Part of a folder or of a data set of the hub; None: the training part, and all of a folder whose files
            name no parts.
        streaming: Tables are read as they are; otherwise ``datasets`` first stores them in its cache.

    Raises:
        ValueError: Nothing there, no such part or column, or a part asked of what has none.
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
    """A corpus from files of one kind, one after the other; arguments as in ``open_corpus``."""
    endings = {table_ending(file) for file in files}
    if len(endings) > 1:
        raise ValueError(f"{where}: files of several kinds, {', '.join(str(file) for file in files)}. Name one.")
    source = ", ".join(file.name for file in files[:2]) + (f" and {len(files) - 2} more" if len(files) > 2 else "")
    identity = "; ".join(f"{file.resolve()} ({file.stat().st_size}, {file.stat().st_mtime_ns})" for file in files)
    ending = endings.pop()
    if ending is None:
        return _of_text(files, source, identity, where)
    rows = table(files, where, with_header=isinstance(text_column, str), streaming=streaming)
    return _of_rows(rows, text_column, source, where, identity)


def table(files: Sequence[Path], where: str, with_header: bool = True, streaming: bool = True) -> Any:
    """The rows of tables of one kind, one file after the other.

    Args:
        files: The files.
        where: Name of the setting, for messages.
        with_header: Whether the first line of a .csv or .tsv names the columns; otherwise they are numbered from 0.
        streaming: They are read as they are; otherwise ``datasets`` first stores them in its cache.
    """
    from datasets import load_dataset

    ending = str(table_ending(files[0]))
    reader, separator = _reader(ending), SEPARATORS.get(ending)
    options = _csv_options(files, separator, with_header, where) if separator else {}
    given = {"train": [str(file) for file in files]}
    return _read(lambda: load_dataset(reader, data_files=given, split="train", streaming=streaming, **options), where)


def published(data: str | Path, where: str, streaming: bool = True) -> Mapping[str, Any]:
    """All splits of a data set of the hub, or of a folder laid out as one, by name.

    Raises:
        ValueError: There is none of that name.
    """
    from datasets import load_dataset

    path, config = _located(data)
    name, _, hub_config = str(data).partition(":")
    name, config = (str(path), config) if path is not None else (name, hub_config)
    return dict(_read(lambda: load_dataset(name, config or None, streaming=streaming), where, str(data)))


@contextlib.contextmanager
def readable(source: str) -> Iterator[None]:
    """Errors of the libraries that read files become a ``ValueError`` that names the data."""
    try:
        yield
    except Exception as error:
        library = type(error).__module__.split(".")[0]
        if library not in ("datasets", "pandas", "pyarrow") and not isinstance(error, UnicodeDecodeError):
            raise
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"'{source}' cannot be read: {first}") from error


def split_named(splits: Iterable[str], split: str) -> str | None:
    """The split that means the part, by any of the words for it; None where there is none.

    >>> split_named(["train", "dev"], "validation")
    'dev'
    """
    there = list(splits)
    return next((word for word in words_for(split) if word in there), None)


def is_hub_name(data: str) -> bool:
    """Whether this may be ``name``, ``owner/name`` or either with ``:config``, and no file that is missing."""
    is_file = table_ending(Path(data)) is not None or (bool(Path(data).suffix) and is_text(Path(data)))
    return HUB_NAME.fullmatch(data) is not None and not is_file


def is_streamed(rows: Any) -> bool:
    """Whether rows can only be read one after the other."""
    from datasets import IterableDataset

    return isinstance(rows, IterableDataset)


def keeps_a_buffer(rows: Any) -> bool:
    """Whether a stream is shuffled: its state does not say which rows wait in the buffer, and they would be lost."""
    waiting = [getattr(rows, "_ex_iterable", None)]
    while waiting:
        part = waiting.pop()
        if type(part).__name__.startswith("BufferShuffled"):
            return True
        waiting += [inner for inner in (getattr(part, "ex_iterable", None),) if inner is not None]
        waiting += getattr(part, "ex_iterables", [])
    return False


def _located(data: str | Path) -> tuple[Path | None, str]:
    """A path that exists, and what follows its colon; no path where the name must be one of the hub."""
    if Path(data).exists():
        return Path(data), ""
    name, _, config = str(data).rpartition(":")
    return (Path(name), config) if name and Path(name).is_dir() else (None, "")


def is_published(folder: Path) -> bool:
    """Whether its README says how to read it, as on the hub."""
    card = folder / "README.md"
    return card.is_file() and re.search(r"\A---\n(.*\n)*?configs:", card.read_text(encoding="utf-8")) is not None


def _expect_no_split(split: str | None, what: str, where: str) -> None:
    """Raises ValueError where a part is asked of what is all one."""
    if split is not None:
        raise ValueError(f"{where}: {what} has no parts to choose from, and split '{split}' was given. Leave it out.")


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


def _reader(ending: str) -> str:
    """What ``datasets`` calls the reader of a table."""
    if is_json_lines(Path(f"rows{ending}")):
        return "json"
    return "csv" if ending in SEPARATORS else ending.removeprefix(".")


def _of_text(files: Sequence[Path], source: str, identity: str, where: str) -> Corpus:
    """A text file is a table of its pieces: parallel and resumable as any table, and nothing is stored anew."""
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


def _lines_of_spans(batch: Batch) -> list[str]:
    spans = zip(batch["path"], batch["begin"], batch["end"], strict=True)
    return [line for path, begin, end in spans for line in lines(_span(Path(path), begin, end))]


def _span(path: Path, begin: int, end: int) -> str:
    """The lines that begin in a piece of a file, the last of them to its end."""
    with path.open("rb") as file:
        if begin:
            file.seek(begin - 1)
            file.readline()  # the rest of a line that began before; only its line end, where one begins here
        start = file.tell()
        data = file.read(max(0, end - start))
        if data and not data.endswith(b"\n"):
            data += file.readline()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' is not UTF-8 text (byte {start + error.start}).") from None


def _of_rows(rows: Any, text_column: str | int, source: str, where: str, identity: str) -> Corpus:
    names = getattr(rows, "column_names", None)
    if isinstance(names, dict) or not hasattr(rows, "map"):
        kind = f"splits {', '.join(names)}" if isinstance(names, dict) else type(rows).__name__
        raise ValueError(f"{where}: must be a path, a name on the hub or one data set ({kind} given)")
    if names is None:  # a stream that says nothing of its columns before it is read
        first = _read(lambda: next(iter(rows), None), where)
        if first is None:
            raise ValueError(f"{where}: '{source}' is empty.")
        names = list(first)
    if "input_ids" in names:
        return Corpus(rows, tuple(names), None, source, identity)
    column = str(text_column)
    if column not in names:
        raise ValueError(
            f"{where}: '{source}' has no column '{column}', only {', '.join(names)}. Name the one with the text as "
            f"text_column."
        )
    return Corpus(rows, tuple(names), _LinesOfRows(column, source), source, identity)


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


def _csv_options(files: Sequence[Path], separator: str, with_header: bool, where: str) -> dict[str, Any]:
    """Every cell is text as it stands: no numbers, no dates, and neither NA nor null is anything but a word."""
    from datasets import Features, Value

    headers = []
    for file in files:
        with readable(file.name), file.open(encoding="utf-8-sig", newline="") as text:
            headers.append(next(csv.reader(text, delimiter=separator, quoting=QUOTING[separator]), []))  # type: ignore[arg-type]
    if not headers[0] or any(header != headers[0] for header in headers):
        what = "is empty" if not headers[0] else "and others differ in their columns; give them one by one"
        raise ValueError(f"{where}: '{files[0]}' {what}.")
    with files[0].open("rb") as raw:
        windows = raw.readline().endswith(b"\r\n")
    names = headers[0] if with_header else [str(number) for number in range(len(headers[0]))]
    return {
        "sep": separator,
        "quoting": QUOTING[separator],
        "header": 0 if with_header else None,
        "names": names,
        "features": Features({name: Value("string") for name in names}),
        "keep_default_na": False,
        "na_filter": False,
        "lineterminator": None if windows else "\n",  # a lone \r is text
    }


def _identity_of_rows(rows: Any) -> str:
    fingerprint = getattr(rows, "_fingerprint", None)
    if fingerprint is not None and not is_streamed(rows):
        return f"data set {fingerprint}"
    return f"stream of {rows.column_names} ({getattr(rows, 'num_shards', None)} parts)"


def _read(reading: Callable[[], Any], where: str, name: str | None = None) -> Any:
    """What ``datasets`` gives, its many kinds of errors as one."""
    try:
        return reading()
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"'{name}' is no file or folder, and no data set of the hub could be read" if name else "cannot be read"
        raise ValueError(f"{where}: {what} ({first})") from None
