"""Files, tables and data sets as texts that are scored each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextword.corpora import is_json_lines, is_published, json_lines, part_files, readable, table_ending
from nextword.corpora.open import of_files, open_corpus
from nextword.corpora.part_names import text_files
from nextword.registry import did_you_mean
from nextword.scoring.example_encoding import Example

WHERE = "--data"

FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("text", "target"),
    "prompt": ("prompt",),
    "source": ("source",),
    "auxiliary": ("auxiliary",),
}
"""What a row of a table may hold, and the columns that are taken for it unless others are named."""


@dataclass(frozen=True)
class GivenTexts:
    """Texts and where they are from.

    Attributes:
        examples: Those that have something in them.
        data: Where they are from, as it was given.
        fields: Columns of tables that were named.
        empty: How many others there are.
    """

    examples: list[Example]
    data: list[str]
    fields: dict[str, str]
    empty: int = 0

    @classmethod
    def of(
        cls, examples: Sequence[Example], data: Sequence[str], fields: Mapping[str, str] | None = None
    ) -> GivenTexts:
        """The examples that have a text.

        Raises:
            ValueError: There are none.
        """
        full = [example for example in examples if example.text.strip()]
        if not full:
            what = f"{len(examples):,} empty ones given" if examples else "none given"
            raise ValueError(f"{', '.join(data) or 'texts'}: must have a text that is not empty ({what})")
        return cls(full, list(data), dict(fields or {}), len(examples) - len(full))


def read_texts(data: Sequence[str], fields: Mapping[str, str] | None = None, split: str = "test") -> GivenTexts:
    """Reads files, folders and data sets of the hub.

    Each file of plain text is one text, each row of a table (.jsonl, .csv, .tsv, .parquet) is one.

    Args:
        data: Paths, or names of data sets of the hub.
        fields: Columns of tables: of the "text", and of a "prompt", "source" or "auxiliary" text.
        split: Part that is read of a folder or of a data set of the hub; a folder whose files name no parts is read as
            a whole.

    Raises:
        ValueError: Nothing there, no text in it, no such column, or a fault in a file; the message says where.
    """
    fields = fields or {}
    unknown = next((name for name in fields if name not in FIELDS), None)
    if unknown is not None:
        raise ValueError(f"--field {unknown}: must be one of {', '.join(FIELDS)}.{did_you_mean(unknown, list(FIELDS))}")
    examples = [example for one in data for example in _read(one, fields, split)]
    return GivenTexts.of(examples, data, fields)


def _read(data: str, fields: Mapping[str, str], split: str) -> Iterator[Example]:
    path = Path(data).expanduser()
    if path.is_file():
        yield from _of_file(path, fields)
    elif path.is_dir() and not is_published(path):
        files = part_files(path, split, WHERE) or text_files(path)
        if not files:
            raise ValueError(f"{WHERE}: '{path}' must hold files of text or tables (none found); name the file")
        for file in files:
            yield from _of_file(file, fields)
    else:
        yield from _of_hub(data, fields, split)


def _of_file(path: Path, fields: Mapping[str, str]) -> Iterator[Example]:
    if is_json_lines(path):
        for line in json_lines(path, WHERE):
            yield _of_row(line.content, fields, line.place, f"{path.name}:{line.number}")
    elif table_ending(path) is not None:
        corpus = of_files([path], WHERE, _column(fields.get("text", "text")))
        yield from _of_rows(corpus.rows, fields, str(path), path.name)
    else:
        yield Example(_plain(path), id=path.name)


def _of_hub(data: str, fields: Mapping[str, str], split: str) -> Iterator[Example]:
    corpus = open_corpus(data, WHERE, text_column=_column(fields.get("text", "text")), split=split)
    yield from _of_rows(corpus.rows, fields, data, data)


def _of_rows(rows: Any, fields: Mapping[str, str], place: str, name: str) -> Iterator[Example]:
    with readable(place):
        for number, row in enumerate(rows, 1):
            yield _of_row(row, fields, f"{place}, row {number}", f"{name}:{number}")


def _of_row(row: Mapping[str, Any], fields: Mapping[str, str], place: str, name: str) -> Example:
    found: dict[str, str] = {}
    for field, usual in FIELDS.items():
        keys = (fields[field],) if field in fields else usual
        key = next((key for key in keys if row.get(key) is not None), None)
        if key is None:
            if field in fields or field == "text":
                wanted = " or ".join(f"'{key}'" for key in keys)
                raise ValueError(
                    f"{place}: must have {wanted} ({', '.join(map(str, row)) or 'nothing'} given); name the column of "
                    f"the {field} with --field {field}=COLUMN"
                )
            continue
        if not isinstance(row[key], str):
            raise ValueError(f"{place}: '{key}' must be text ({type(row[key]).__name__} given)")
        found[field] = row[key]
    return Example(**found, id=name)


def _column(name: str) -> str | int:
    return int(name) if name.isdigit() else name


def _plain(path: Path) -> str:
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise ValueError(f"{path}: must be UTF-8 text (byte {fault.start} is none); is it a binary file?") from None
    except OSError as fault:
        raise ValueError(f"{path}: cannot be read ({fault.strerror or fault})") from None
    if "\0" in text:
        raise ValueError(f"{path}: must be text (a zero byte at {raw.index(0)}); is it a binary file?")
    if not text.strip():
        raise ValueError(f"{path}: must have a text (an empty file given)")
    return text
