"""Pairs of a source and a target, in three parts: from JSON lines, or from whatever other files a task can read."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from nextword.corpora import PARTS, JsonLine, file_names, is_json_lines, json_lines, part_files, part_of
from nextword.corpora.gap_sentences import GapConfig, Pair, gap_pairs
from nextword.corpora.texts import read_parts

T = TypeVar("T")


@dataclass(frozen=True)
class Side:
    """One side of a pair: what messages call it, and the field of a JSON line that holds it."""

    name: str
    field: str

    @property
    def setting(self) -> str:
        """The setting that names the field."""
        return f"task.{self.name}_field"


@dataclass(frozen=True)
class Reading:
    """How pairs are found in files, and how those that come unsplit are split.

    Attributes:
        source: What the source of a pair is.
        target: What its target is.
        split_field: Field of a JSON line that names the part; None: the part goes by a hash.
        validation_share: Share of the pairs that validates, by hash.
        test_share: Share that tests.
        seed: Of the hash.
        other: What reads files that hold no JSON lines.
        hashed: Side that is hashed: pairs that share it stay together.
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
    """A reader of files without JSON lines.

    Attributes:
        read: Gives the pairs of a path; the last argument is the setting that holds it, for messages.
        wanted: What these files are, for messages: "plain text (...)".
    """

    read: Callable[[Path, Reading, str], PairParts]
    wanted: str


@dataclass(frozen=True)
class PairParts:
    """The pairs of each part, where they are from, how they were told apart, and how many had no text in them."""

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
                digest.update(f"{pair.source}\0{pair.target}\0".encode())
            digest.update(b"\0")
        return digest.hexdigest()


def read_pairs(path: Path, reading: Reading, where: str = "task.data") -> PairParts:
    """Reads a folder or a file.

    Args:
        path: A folder with train, validation and test ``.jsonl`` files, one such file, or what ``reading.other`` reads.
        reading: How.
        where: Name of the setting that holds the path, for messages.

    Raises:
        ValueError: Nothing there, a part is missing or has no pairs, or a line is wrong (says which and why).
    """
    if not path.exists():
        raise ValueError(
            f"{where}: '{path}' does not exist. Give a .jsonl file, a folder with train.jsonl, validation.jsonl and "
            f"test.jsonl, or {reading.other.wanted}."
        )
    files = {part: part_files(path, part, where, json_only=True) for part in PARTS} if path.is_dir() else {}
    if any(files.values()):
        found = _from_folder(path, files, reading, where)
    elif path.is_file() and is_json_lines(path):
        found = _from_file(path, reading, where)
    else:
        found = reading.other.read(path, reading, where)
    for part in PARTS:
        if not getattr(found, part):
            sizes = ", ".join(f"{len(getattr(found, name))} {name}" for name in PARTS)
            left = f"; {found.empty} left out, because a side of them is empty" if found.empty else ""
            raise ValueError(
                f"{where}: '{path}' gives no {part} pairs ({sizes}{left}; split: {found.split}). {_hint(found)}"
            )
    return found


def sample(pairs: Sequence[T], count: int | None, seed: int) -> list[T]:
    """At most ``count`` pairs in their order, always the same ones for a seed.

    >>> pairs = [Pair(str(number), "") for number in range(9)]
    >>> sample(pairs, None, 0) == pairs, len(sample(pairs, 3, 0))
    (True, 3)
    """
    if count is None or count >= len(pairs):
        return list(pairs)
    return [pairs[index] for index in sorted(random.Random(seed).sample(range(len(pairs)), count))]


def _hint(found: PairParts) -> str:
    if found.split == GAPS:
        return "Pairs are made of paragraphs of at least task.gaps.min_sentences sentences; see task.gaps.paragraph."
    return "Give more pairs, larger task.validation_share and task.test_share, or a folder with three files."


GAPS = "files, a sentence taken out of each paragraph"


def gap_texts(config: GapConfig) -> OtherFiles:
    """Plain text, of each paragraph of which a sentence is taken out."""

    def read(path: Path, reading: Reading, where: str) -> PairParts:
        texts = read_parts(path, where)
        pairs = {part: list(gap_pairs(getattr(texts, part), config, reading.seed)) for part in PARTS}
        return PairParts(*_in_order(pairs), source=texts.source, split=GAPS)

    return OtherFiles(read, "plain text (train.txt, valid.txt, test.txt), in which sentences are taken out")


def split_by_hash(pairs: Iterable[Pair], reading: Reading, source: str, kind: str) -> PairParts:
    """Pairs that come unsplit, dealt out by a hash; those with a side without text are left out and counted.

    Args:
        pairs: The pairs.
        reading: Shares, seed and side of the hash.
        source: Where they are from, for reports.
        kind: What they come in, for reports: "one file".
    """
    parts: dict[str, list[Pair]] = {part: [] for part in PARTS}
    count = 0
    for pair in pairs:
        parts[_part_by_hash(pair, reading)] += _with_text([pair])
        count += 1
    shares = (1 - reading.validation_share - reading.test_share, reading.validation_share, reading.test_share)
    side: Side = getattr(reading, reading.hashed)
    split = f"{kind} by a hash of the {side.name}, {'/'.join(f'{100 * share:g}' for share in shares)} %"
    return PairParts(*_in_order(parts), source=source, split=split, empty=count - sum(map(len, parts.values())))


def leaks(trained: Sequence[Pair], tested: Sequence[Pair], prefix: str, reading: Reading) -> dict[str, int]:
    """How many tested pairs have a source, or a target, that a trained pair has too, by name: ``leak_sources``."""
    found = {}
    for side in ("source", "target"):
        known = {getattr(pair, side) for pair in trained}
        found[f"{prefix}_{_plural(getattr(reading, side).name)}"] = sum(getattr(pair, side) in known for pair in tested)
    return found


def _from_folder(path: Path, files: Mapping[str, list[Path]], reading: Reading, where: str) -> PairParts:
    pairs, empty = {}, 0
    for part, own in files.items():
        if not own:
            raise ValueError(f"{where}: no {part} pairs in '{path}'. Looked for: {file_names(part, ['.jsonl'])}.")
        rows = [_pair(line.content, reading, line.place) for file in own for line in _rows(file, where)]
        pairs[part] = _with_text(rows)
        empty += len(rows) - len(pairs[part])
    return PairParts(*_in_order(pairs), source=path.name, split="files", empty=empty)


def _from_file(path: Path, reading: Reading, where: str) -> PairParts:
    if reading.split_field is None:
        unsplit = (_pair(line.content, reading, line.place) for line in _rows(path, where))
        return split_by_hash(unsplit, reading, path.name, "one file")
    pairs: dict[str, list[Pair]] = {part: [] for part in PARTS}
    count = 0
    for line in _rows(path, where):
        pair = _pair(line.content, reading, line.place)
        pairs[_part_named(line.content, reading, line.place)] += _with_text([pair])
        count += 1
    split = f"one file by its field '{reading.split_field}'"
    return PairParts(*_in_order(pairs), source=path.name, split=split, empty=count - sum(map(len, pairs.values())))


def _part_by_hash(pair: Pair, reading: Reading) -> str:
    digest = hashlib.sha256(f"{reading.seed}/{getattr(pair, reading.hashed)}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < reading.test_share:
        return "test"
    return "validation" if place < reading.test_share + reading.validation_share else "train"


def _part_named(row: dict[str, Any], reading: Reading, at: str) -> str:
    name = _text(row, str(reading.split_field), at, "task.split_field")
    part = part_of(name)
    if part is not None:
        return part
    known = ", ".join(word for words in PARTS.values() for word in words)
    raise ValueError(f"{at}: field '{reading.split_field}' is '{name}'; known parts: {known}.")


def _pair(row: dict[str, Any], reading: Reading, at: str) -> Pair:
    return Pair(
        _text(row, reading.source.field, at, reading.source.setting),
        _text(row, reading.target.field, at, reading.target.setting),
    )


def _text(row: dict[str, Any], name: str, at: str, setting: str) -> str:
    if name not in row:
        raise ValueError(f"{at}: no field '{name}'; its fields are {', '.join(row) or 'none'}. Choose with {setting}.")
    value = row[name]
    if not isinstance(value, str):
        raise ValueError(f"{at}: field '{name}' must be text ({json.dumps(value)[:40]} given). Choose with {setting}.")
    return value


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def _in_order(pairs: dict[str, list[Pair]]) -> tuple[list[Pair], list[Pair], list[Pair]]:
    return pairs["train"], pairs["validation"], pairs["test"]


def _with_text(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.source.strip() and pair.target.strip()]


def _rows(path: Path, where: str) -> Iterator[JsonLine]:
    """An empty line is no pair, and nothing depends on the number of a line."""
    return json_lines(path, where, skip_empty=True)
