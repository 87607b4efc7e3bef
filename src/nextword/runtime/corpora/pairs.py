"""Pairs of a source and a target in three splits, from tables such as JSON lines, or from other files of a task."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

from nextword.runtime.corpora.gap_sentences import GapConfig, Pair, gap_pairs
from nextword.runtime.corpora.part_names import (
    JSON_LINES,
    PARTS,
    TABLES,
    file_names,
    is_saved_set,
    part_files,
    part_of,
    table_ending,
    text_files,
)
from nextword.runtime.corpora.row_files import JsonLine, table_rows
from nextword.runtime.corpora.texts import read_parts

T = TypeVar("T")


@dataclass(frozen=True)
class Side:
    """Name and location of the source or the target of a pair.

    ``name`` appears in settings and reports. ``field`` is the key of the text in a row, or a path of keys such as
    "questions.0.text". None: the key is found by recognising a published data set from the keys of the first row.
    """

    name: str
    field: str | None

    @property
    def setting(self) -> str:
        """Name of the setting that gives ``field``, such as "task.source_field"."""
        return f"task.{self.name}_field"


@dataclass(frozen=True)
class PairReading:
    """Settings for reading pairs from files, and for splitting them.

    Attributes:
        source: Name and field of the source.
        target: Name and field of the target.
        split_field: Field of a row with the name of its split. None: the field ``split``, if the rows have a known form
            and this field; otherwise pairs are split by a hash.
        validation_share: Share of pairs that the hash assigns to validation.
        test_share: Share of pairs that the hash assigns to testing.
        seed: Seed of the hash.
        other: Reader of files that are not tables.
        hashed: The text of a pair that is hashed. Pairs in which this text is equal are therefore in the same split.
    """

    source: Side
    target: Side
    split_field: str | None
    validation_share: float
    test_share: float
    seed: int
    other: OtherFiles
    hashed: Literal["source", "target"] = "source"

    def __post_init__(self) -> None:
        held_out = self.validation_share + self.test_share
        if held_out >= 1:
            raise ValueError(
                f"task.validation_share + task.test_share is {held_out:g}: it must stay below 1 to leave a training set"
            )


@dataclass(frozen=True)
class OtherFiles:
    """A reader of files that are not tables.

    Attributes:
        read: Function that reads the pairs of a path. Its last argument is the name of the setting, for messages.
        wanted: Description of these files, for messages: "plain text (...)".
        claims: Function that returns whether this reader reads a folder although the folder has tables.
    """

    read: Callable[[Path, PairReading, str], PairParts]
    wanted: str
    claims: Callable[[Path], bool] = lambda path: False


def give(wanted: str) -> str:
    """The last sentence of a message about files that are missing: tables, or the files described by ``wanted``."""
    return f"Give a .jsonl file, a folder with train.jsonl, validation.jsonl and test.jsonl, or {wanted}."


def first_claiming(*readers: OtherFiles) -> OtherFiles:
    """Makes a reader that reads a folder with the first of ``readers`` that claims it."""
    wanted = ", or ".join(reader.wanted for reader in readers)

    def read(path: Path, reading: PairReading, where: str) -> PairParts:
        for reader in readers:
            if reader.claims(path):
                return reader.read(path, reading, where)
        raise ValueError(f"{where}: '{path}' has no pairs that can be read. {give(wanted)}")

    return OtherFiles(read, wanted, lambda path: any(reader.claims(path) for reader in readers))


@dataclass(frozen=True)
class PairParts:
    """The pairs of each split of the data ``source``. ``split`` says how they were split.

    ``empty`` is the number of pairs that were left out because a text in them is empty.
    """

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    source: str
    split: str
    empty: int = 0

    @property
    def sha256(self) -> str:
        """Checksum over all pairs in order."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            for pair in part:
                digest.update("".join(f"{text}\0" for text in (pair.source, *pair.references)).encode())
            digest.update(b"\0")
        return digest.hexdigest()


def read_pairs(path: Path, reading: PairReading, where: str = "task.data") -> PairParts:
    """Reads pairs from a folder with a ``.jsonl`` file per split, one ``.jsonl`` file, or files for ``reading.other``.

    Tables in other formats, and files with one JSON list, are read like JSON lines. Messages name the setting
    ``where``.

    Raises:
        ValueError: If the path does not exist, a split is missing or empty, or a row, which the message names, is
            invalid.
    """
    if not path.exists():
        raise ValueError(f"{where}: '{path}' does not exist. {give(reading.other.wanted)}")
    files = {} if reading.other.claims(path) or is_saved_set(path) else _tables(path, where)
    if files:
        parts = _from_folder(path, files, reading, where)
    elif is_saved_set(path) or (path.is_file() and table_ending(path) is not None):
        parts = _from_one(path, reading, where)
    else:
        parts = reading.other.read(path, reading, where)
    for part in PARTS:
        if not getattr(parts, part):
            sizes = ", ".join(f"{len(getattr(parts, name))} {name}" for name in PARTS)
            left = f"; {parts.empty} left out, because a side of them is empty" if parts.empty else ""
            hint = (
                "Pairs are made of paragraphs of at least task.gaps.min_sentences sentences; see task.gaps.paragraph."
                if parts.split == GAPS
                else "Give more pairs, larger task.validation_share and task.test_share, or a folder with three files."
            )
            raise ValueError(f"{where}: '{path}' gives no {part} pairs ({sizes}{left}; split: {parts.split}). {hint}")
    return parts


def _tables(folder: Path, where: str) -> dict[str, list[Path]]:
    """The tables of each split of a folder, JSON before other formats. Empty if a split has none."""
    for endings in (JSON_LINES, TABLES) if folder.is_dir() else ():
        files = {part: part_files(folder, part, where, endings) for part in PARTS}
        if any(files.values()):
            return files
    return {}


def sample(pairs: Sequence[T], count: int | None, seed: int) -> list[T]:
    """At most ``count`` random pairs in their order; None: all pairs. ``seed`` determines the choice.

    >>> pairs = [Pair(str(number), "") for number in range(9)]
    >>> sample(pairs, None, 0) == pairs, len(sample(pairs, 3, 0))
    (True, 3)
    """
    if count is None or count >= len(pairs):
        return list(pairs)
    return [pairs[index] for index in sorted(random.Random(seed).sample(range(len(pairs)), count))]


GAPS = "files, a sentence taken out of each paragraph"


def gap_texts(config: GapConfig) -> OtherFiles:
    """Makes a reader of plain text. From each paragraph it makes a pair, whose target is one of the sentences."""

    def read(path: Path, reading: PairReading, where: str) -> PairParts:
        texts = read_parts(path, where)
        train, validation, test = (list(gap_pairs(getattr(texts, part), config, reading.seed)) for part in PARTS)
        return PairParts(train, validation, test, texts.source, GAPS)

    return OtherFiles(read, "plain text (train.txt, valid.txt, test.txt), in which sentences are taken out")


def dealt(pairs: Iterable[tuple[str, Pair]], source: str, split: str) -> PairParts:
    """Groups ``pairs``, tuples of split name and pair, by split. Pairs with an empty text are only counted."""
    parts: dict[str, list[Pair]] = {part: [] for part in PARTS}
    empty = 0
    for part, pair in pairs:
        if pair.source.strip() and pair.target.strip():
            parts[part].append(pair)
        else:
            empty += 1
    return PairParts(parts["train"], parts["validation"], parts["test"], source, split, empty)


def split_by_hash(pairs: Iterable[Pair], reading: PairReading, source: str, kind: str) -> PairParts:
    """Splits pairs by a hash of source or target. ``kind`` says in reports where they are from, such as "one file"."""
    shares = (1 - reading.validation_share - reading.test_share, reading.validation_share, reading.test_share)
    side: Side = getattr(reading, reading.hashed)
    split = f"{kind} by a hash of the {side.name}, {'/'.join(f'{100 * share:g}' for share in shares)} %"
    held_out = reading.validation_share, reading.test_share
    hashed = ((part_by_hash(getattr(pair, reading.hashed), reading.seed, *held_out), pair) for pair in pairs)
    return dealt(hashed, source, split)


def leaks(trained: Sequence[Pair], tested: Sequence[Pair], prefix: str, reading: PairReading) -> dict[str, int]:
    """Counts the pairs in ``tested`` whose source is also a source in ``trained``; likewise for targets.

    The keys of the result are ``prefix`` with the plural of the name of source or target, such as ``leak_sources``.
    """
    found = {}
    for side in ("source", "target"):
        known = {getattr(pair, side) for pair in trained}
        name = getattr(reading, side).name
        plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
        found[f"{prefix}_{plural}"] = sum(getattr(pair, side) in known for pair in tested)
    return found


def _from_folder(path: Path, files: Mapping[str, list[Path]], reading: PairReading, where: str) -> PairParts:
    def pairs() -> Iterator[tuple[str, Pair]]:
        for part, own in files.items():
            if not own:
                raise ValueError(f"{where}: no {part} pairs in '{path}'. Looked for: {file_names(part, ['.jsonl'])}.")
            for file in own:
                yield from ((part, _pair(row, form, reading)) for form, row in _rows(file, reading, where))

    return dealt(pairs(), path.name, "files")


def _from_one(path: Path, reading: PairReading, where: str) -> PairParts:
    files = text_files(path) if path.is_dir() else [path]
    rows = chain.from_iterable(_rows(file, reading, where) for file in files)
    first = next(rows)
    all_rows = chain([first], rows)
    field = reading.split_field
    if field is None and None in (reading.source.field, reading.target.field):  # the user has not named all fields
        field = SPLIT if part_of(str(first[1].content.get(SPLIT))) is not None else None
    if field is None:
        unsplit = (_pair(row, form, reading) for form, row in all_rows)
        return split_by_hash(unsplit, reading, path.name, "one file")
    pairs = ((part_named(row, field), _pair(row, form, reading)) for form, row in all_rows)
    return dealt(pairs, path.name, f"one file by its field '{field}'")


def part_by_hash(text: str, seed: int, validation_share: float, test_share: float) -> str:
    """Chooses the split of ``text`` by a hash of ``seed`` and ``text``, so equal texts are in the same split."""
    digest = hashlib.sha256(f"{seed}/{text}".encode()).digest()
    drawn = int.from_bytes(digest[:8], "big") / 2**64
    if drawn < test_share:
        return "test"
    return "validation" if drawn < test_share + validation_share else "train"


def part_named(row: JsonLine, field: str) -> str:
    """The split that ``field`` of ``row`` names. ValueError if the field is missing or does not name a split."""
    name = texts_at(row, (field,), "task.split_field")[0]
    part = part_of(name)
    if part is not None:
        return part
    known = ", ".join(word for words in PARTS.values() for word in words)
    raise ValueError(f"{row.place}: field '{field}' is '{name}'; known splits: {known}.")


def _pair(row: JsonLine, form: PairForm, reading: PairReading) -> Pair:
    source = " ".join(texts_at(row, (form.source,), reading.source.setting))
    target, *others = texts_at(row, form.targets, reading.target.setting, form.in_sentences)
    return Pair(source, target, tuple(text for text in others if text.strip()))


def texts_at(row: JsonLine, paths: Sequence[str], setting: str, in_sentences: bool = False) -> list[str]:
    """The texts at all ``paths`` of ``row``. With ``in_sentences``, a list of sentences is joined to one text.

    Raises:
        ValueError: If none of the paths exists or a value is not text. The message names ``setting``.
    """
    values = [(path, value) for path in paths for value in values_at(row.content, path)]
    if not values:
        has = ", ".join(row.content) or "none"
        raise ValueError(f"{row.place}: no field '{paths[0]}'; its fields are {has}. Choose with {setting}.")
    texts = []
    for path, value in [one for one in values if one[1] is not None] or values:
        is_list = in_sentences and isinstance(value, list) and all(isinstance(one, str) for one in value)
        joined = " ".join(value) if is_list else value
        if not isinstance(joined, str):
            given = json.dumps(value)[:40]
            raise ValueError(f"{row.place}: field '{path}' must be text ({given} given). Choose with {setting}.")
        texts.append(joined)
    return texts


def _rows(path: Path, reading: PairReading, where: str) -> Iterator[tuple[PairForm, JsonLine]]:
    """The rows of a file, each with the form of the file, which is recognised from the first row."""
    form: PairForm | None = None
    for row in table_rows(path, where):
        form = form or form_of(row.content, row.place, reading.source.field, reading.target.field)
        yield form, row


# -- The forms of published data sets of documents with summaries: which field has the document, and which the summary.
#
# A form is recognised by the fields of a row, so the user need not name the data set. To add a form, add an entry to
# FORMS.

SPLIT = "split"
"""Field with the split of a row, in files of a recognised form that have this field."""


@dataclass(frozen=True)
class PairForm:
    """The fields with source and targets in the rows of a data set.

    Attributes:
        title: Name of the data set, and where it is published.
        source: Path of the source in a row.
        targets: Paths of the targets. All targets that a row has at these paths are its references, in this order.
        in_sentences: Whether a target is a list of sentences.
    """

    title: str
    source: str
    targets: tuple[str, ...]
    in_sentences: bool = False

    @property
    def fields(self) -> str:
        """The fields of the source and the first target, for messages."""
        return f"{self.source} and {self.targets[0]} ({self.title})"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether ``row`` has values for the source and for at least one target."""
        sides = values_at(row, self.source), [value for path in self.targets for value in values_at(row, path)]
        return all(any(value is not None for value in side) for side in sides)


FORMS = (
    PairForm("pairs", "source", ("target",)),
    PairForm("XSum: EdinburghNLP/xsum", "document", ("summary",)),
    PairForm("CNN/DailyMail: abisee/cnn_dailymail", "article", ("highlights",)),
    PairForm(
        "SAMSum: Samsung/samsum; DialogSum: cylnlp/dialogsum",
        "dialogue",
        ("summary", "summary1", "summary2", "summary3"),
    ),
    PairForm("BookSum, chapters: kmfoda/booksum", "chapter", ("summary_text",)),
    PairForm("BookSum, paragraphs: salesforce/booksum", "text", ("summary",), in_sentences=True),
    PairForm("SQuALITY: nyu-mll/SQuALITY", "document", ("questions.0.responses[].response_text",)),
)
"""Forms of published data sets. In SQuALITY the first question asks for the plot, and several people answered it."""


def form_of(row: Mapping[str, Any], place: str, source: str | None, target: str | None) -> PairForm:
    """Finds the form of a file from its first row, ``row``. ValueError, which names ``place``, if no form fits.

    ``source`` and ``target`` are the fields that the user has named, or None.
    """
    if source is not None and target is not None:
        return PairForm("as named", source, (target,))
    named = [
        replace(form, source=source or form.source, targets=(target,) if target else form.targets) for form in FORMS
    ]
    fitting = next((form for form in named if form.fits(row)), None)
    if fitting is None:
        known = "; ".join(form.fields for form in named)
        raise ValueError(
            f"{place}: its fields are {', '.join(row) or 'none'}. Known forms: {known}. Name yours with "
            f"task.source_field and task.target_field."
        )
    return fitting


def values_at(row: Mapping[str, Any], path: str) -> list[Any]:
    """The values at a path of a row. Empty if the path does not exist.

    A step of a path is a key, the number of an entry, or ``[]``, which means every entry.

    >>> row = {"questions": [{"answers": [{"text": "One."}, {"text": "Two."}]}, {"answers": []}]}
    >>> values_at(row, "questions.0.answers[].text"), values_at(row, "questions.7")
    (['One.', 'Two.'], [])
    """
    if path in row:  # the path is a key, even if it contains dots
        return [row[path]]
    reached: list[Any] = [row]
    for step in re.findall(r"\[\]|[^.\[\]]+", path):
        reached = [entry for value in reached for entry in _entries(value, step)]
    return reached


def _entries(value: Any, step: str) -> Sequence[Any]:
    if step == "[]":
        return value if isinstance(value, list) else []
    if isinstance(value, list):
        return value[int(step) : int(step) + 1] if step.isdecimal() else []
    return [value[step]] if isinstance(value, Mapping) and step in value else []
