"""Reads texts to score from files, tables and data sets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from nextword.inference.scoring.example_encoding import Example
from nextword.runtime.corpora import (
    is_published,
    numbered_lines,
    open_corpus,
    part_files,
    plain_text,
    readable,
    table_ending,
    table_rows,
)
from nextword.runtime.corpora.part_names import text_files
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import either, named

FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("text", "target"),
    "prompt": ("prompt",),
    "source": ("source",),
    "auxiliary": ("auxiliary",),
}
"""The fields of a table row, each with its default column names."""


SampleBy = Literal["line", "paragraph"]
"""How a plain text file is split into texts, in the words of the library ``datasets``."""

SIZES_KEPT = 64
"""Maximum number of texts for which the number of bytes is kept."""


class ChangedError(ValueError):
    """Texts were changed since they were first read."""


@dataclass(frozen=True)
class GivenTexts:
    """Texts and their origin. Texts of files are read again for each pass, so that not all of them are in memory.

    Attributes:
        read: Function that iterates over all texts, including empty ones.
        data: The files or data sets that the texts are from, as the user named them.
        fields: Mapping from "text", "prompt", "source" or "auxiliary" to the name of the table column that the user
            chose for this content.
        texts: Number of texts that are not empty.
        empty: Number of empty texts.
        sizes: Number of UTF-8 bytes of each of the first ``SIZES_KEPT`` texts that are not empty.
        bytes: Number of UTF-8 bytes of all texts that are not empty.
        digest: Digest of all texts that are not empty.
    """

    read: Callable[[], Iterable[Example]]
    data: list[str]
    fields: dict[str, str]
    texts: int
    empty: int
    sizes: tuple[int, ...]
    bytes: int
    digest: str

    @classmethod
    def of(
        cls, examples: Sequence[Example], data: Sequence[str], fields: Mapping[str, str] | None = None
    ) -> GivenTexts:
        """Makes the object from ``examples`` in memory.

        Raises:
            ValueError: If there is no text, or if all texts are empty.
        """
        return cls.of_reading(lambda: examples, data, fields)

    @classmethod
    def of_reading(
        cls, read: Callable[[], Iterable[Example]], data: Sequence[str], fields: Mapping[str, str] | None = None
    ) -> GivenTexts:
        """Makes the object from ``read``, which is called once here, to count and check the texts.

        Raises:
            ValueError: If there is no text, if all texts are empty, or if a text cannot be read.
        """
        texts = empty = total = 0
        sizes: list[int] = []
        digest = hashlib.sha256()
        for example in read():
            if not example.text.strip():
                empty += 1
                continue
            size = len(example.text.encode("utf-8", "surrogatepass"))
            if texts < SIZES_KEPT:
                sizes.append(size)
            texts, total = texts + 1, total + size
            digest.update(_content(example))
        if not texts:
            what = f"{empty:,} empty ones given" if empty else "none given"
            raise ValueError(f"{', '.join(data) or 'texts'}: must have a text that is not empty ({what})")
        return cls(read, list(data), dict(fields or {}), texts, empty, tuple(sizes), total, digest.hexdigest())

    @property
    def examples(self) -> Iterator[Example]:
        """Iterates over the texts that are not empty.

        Raises:
            ChangedError: After the last text, if the texts were changed since this object was made.
        """
        digest = hashlib.sha256()
        for example in self.read():
            if example.text.strip():
                digest.update(_content(example))
                yield example
        if digest.hexdigest() != self.digest:
            raise ChangedError(
                f"{', '.join(self.data)}: must stay as it is while it is scored (it was changed meanwhile); run the "
                "same command again when it is complete"
            )


def _content(example: Example) -> bytes:
    return repr((example.text, example.prompt, example.source, example.auxiliary, example.id)).encode()


def read_texts(
    data: Sequence[str],
    fields: Mapping[str, str] | None = None,
    split: str = "test",
    sample_by: SampleBy | None = None,
    where: str = "data",
) -> GivenTexts:
    """Reads texts from files, folders and data sets on the hub. The texts are read once here, and again for each pass.

    Each plain text file and each row of a table (.jsonl, .csv, .tsv, .parquet) is one text.

    Args:
        data: Paths, or names of data sets on the hub.
        fields: Mapping from "text", "prompt", "source" or "auxiliary" to the name of its table column. By default the
            column has the same name, or for "text" the name "target".
        split: Split of a folder or of a data set on the hub. A folder of files without splits is read as a whole.
        sample_by: How a plain text file is split into texts: "line", or "paragraph" (separated by blank lines). None:
            the file is one text.
        where: Name of the setting that ``data`` comes from, for error messages.

    Raises:
        ValueError: If data or a column do not exist, ``fields`` has an unknown key, a file is invalid, or all texts
            are empty.
    """
    fields = fields or {}
    unknown = next((name for name in fields if name not in FIELDS), None)
    if unknown is not None:
        field = either(f"--field {unknown}", f"fields: '{unknown}'")
        raise ValueError(f"{field}: must be one of {', '.join(FIELDS)}.{did_you_mean(unknown, list(FIELDS))}")
    reading = partial(_read, list(data), dict(fields), split, sample_by, named(where))
    return GivenTexts.of_reading(reading, data, fields)


def _read(
    data: Sequence[str], fields: Mapping[str, str], split: str, sample_by: SampleBy | None, where: str
) -> Iterator[Example]:
    for one in data:
        path = Path(one).expanduser()
        if path.is_file():
            yield from _of_file(path, fields, sample_by, where)
        elif path.is_dir() and not is_published(path):
            files = part_files(path, split, where) or text_files(path)
            if not files:
                found = "none found" if any(path.iterdir()) else "the folder is empty"
                raise ValueError(
                    f"{where}: '{path}' must hold files of text (.txt) or tables (.jsonl, .csv, .tsv, .parquet) "
                    f"({found}); name the file"
                )
            for file in files:
                yield from _of_file(file, fields, sample_by, where)
        else:
            corpus = open_corpus(one, where, text_column=_column(fields.get("text", "text")), split=split)
            with readable(one):
                for number, row in enumerate(corpus.rows, 1):
                    yield _of_row(row, fields, f"{one}, row {number}", f"{one}:{number}")


def _of_file(path: Path, fields: Mapping[str, str], sample_by: SampleBy | None, where: str) -> Iterator[Example]:
    if table_ending(path) is not None:
        with_header = isinstance(_column(fields.get("text", "text")), str)
        for row in table_rows(path, where, with_header, skip_empty=False):
            yield _of_row(row.content, fields, row.place, f"{path.name}:{row.number}")
    elif sample_by is not None:
        yield from _pieces(path, sample_by, where)
    else:
        yield Example(plain_text(path, where), id=path.name)


def _pieces(path: Path, sample_by: SampleBy, where: str) -> Iterator[Example]:
    # each piece keeps its line ends, and is named after its first line
    piece: list[str] = []
    for number, line in numbered_lines(path, where):
        if "\0" in line:
            raise ValueError(f"{path}: must be text (a zero byte in line {number}); is it a binary file?")
        if line.strip():
            piece.append(line)
        if piece and (sample_by == "line" or not line.strip()):
            yield Example("".join(piece), id=f"{path.name}:{number - len(piece) + bool(line.strip())}")
            piece = []
    if piece:
        yield Example("".join(piece), id=f"{path.name}:{number - len(piece) + 1}")


def _of_row(row: Mapping[str, Any], fields: Mapping[str, str], place: str, name: str) -> Example:
    found: dict[str, str] = {}
    for field, usual in FIELDS.items():
        keys = (fields[field],) if field in fields else usual
        key = next((key for key in keys if row.get(key) is not None), None)
        if key is None:
            null = next((key for key in keys if key in row), None)
            if null is not None and field == "text":
                raise ValueError(f"{place}: '{null}' must be text (null given); write a text or leave the row out")
            if field in fields or field == "text":
                wanted = " or ".join(f"'{key}'" for key in keys)
                naming = either(f"--field {field}=COLUMN", f"fields={{'{field}': 'COLUMN'}}")
                raise ValueError(
                    f"{place}: must have {wanted} ({', '.join(map(str, row)) or 'nothing'} given); name the column of "
                    f"the {field} with {naming}"
                )
            continue
        if not isinstance(row[key], str):
            raise ValueError(f"{place}: '{key}' must be text ({type(row[key]).__name__} given)")
        found[field] = row[key]
    return Example(**found, id=name)


def text_column(field: str | None) -> dict[str, str]:
    """Makes the ``fields`` of ``read_texts`` from the value of ``--field``: ``text=COLUMN``, ``COLUMN`` or None."""
    return {} if field is None else {"text": field.removeprefix("text=")}


def _column(name: str) -> str | int:
    return int(name) if name.isdigit() else name
