"""Stories in three parts: JSON lines, plain text, or the files that WritingPrompts comes in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nextword.evaluation.samples import plain_text_of
from nextword.runtime.corpora import PARTS, JsonLine, is_json_lines, json_lines, numbered_lines, part_files, part_of

TARGETS = ".wp_target"
"""Ending of WritingPrompts' files (Fan et al., 2018), with a story a line."""
LINE_END = "<newline>"
"""What stands for a line end in them."""

WANTED = (
    f"a .jsonl file, a folder with train.jsonl, validation.jsonl and test.jsonl, one with train{TARGETS}, "
    f"valid{TARGETS} and test{TARGETS}, or plain text with a story a line or between blank lines"
)


@dataclass(frozen=True)
class StoryReading:
    """How stories are found in files.

    Attributes:
        field: Field of a JSON line that holds the story.
        split_field: Field that names its part; None: the part goes by a hash.
        validation_share: Share of the stories that validates, where nothing says which do.
        test_share: Share that tests, where nothing says which do.
        seed: Of the hash.
    """

    field: str
    split_field: str | None
    validation_share: float
    test_share: float
    seed: int


@dataclass(frozen=True)
class StoryParts:
    """The stories of each part, where they are from, how they were told apart, and how many had no words."""

    train: list[str]
    validation: list[str]
    test: list[str]
    source: str
    split: str
    empty: int

    @property
    def sha256(self) -> str:
        """Checksum over all stories in order."""
        parts = ("\0".join(stories) for stories in (self.train, self.validation, self.test))
        return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()


def read_stories(path: Path, reading: StoryReading, where: str = "task.data") -> StoryParts:
    """Reads a folder with a file for each part, or one file.

    Stories of which nothing says the part are dealt out by a hash of their text. Where parts are named and none is for
    validation, a share of the training stories is taken, by the same hash.

    Args:
        path: The folder or file.
        reading: How.
        where: Name of the setting that holds the path, for messages.

    Raises:
        ValueError: Nothing there, a part is missing or has no stories, or a line is wrong (says which and why).
    """
    if not path.exists():
        raise ValueError(f"{where}: '{path}' does not exist. Give {WANTED}.")
    files = _files_by_part(path, where)
    named = [
        (part or _part_named(line, reading), story)
        for part, one in files
        for line, story in _stories(one, reading, where)
    ]
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    told = any(part is not None for part, _ in named)
    for part, story in named:
        if story.strip():
            parts[part or _dealt(story, reading, reading.test_share)].append(story)
    split = "parts named in the data" if told else f"by a hash of the story, {_shares(reading)}"
    if told and not parts["validation"]:
        dealt = [(_dealt(story, reading, test_share=0.0), story) for story in parts["train"]]
        for part in ("train", "validation"):
            parts[part] = [story for name, story in dealt if name == part]
        split += f", {100 * reading.validation_share:g} % of the training stories for validation by a hash"
    _expect_stories(parts, path, where, split)
    return StoryParts(**parts, source=path.name, split=split, empty=len(named) - sum(map(len, parts.values())))


def _files_by_part(path: Path, where: str) -> list[tuple[str | None, Path]]:
    if path.is_file():
        return [(None, path)]
    found: list[tuple[str | None, Path]] = [(part, file) for part in PARTS for file in _files_of(path, part, where)]
    if not found:
        raise ValueError(f"{where}: '{path}' has no files of stories. Give {WANTED}.")
    return found


def _files_of(folder: Path, part: str, where: str) -> list[Path]:
    targets = [folder / f"{word}{TARGETS}" for word in PARTS[part]]
    return [file for file in targets if file.is_file()] or part_files(folder, part, where)


def _stories(file: Path, reading: StoryReading, where: str) -> Iterator[tuple[JsonLine | None, str]]:
    """Each story, with its JSON line where it has one."""
    if file.name.endswith(TARGETS):
        for _, line in numbered_lines(file, where):
            yield None, re.sub(rf" ?{LINE_END} ?", "\n", line).strip("\r\n")
        return
    cut = None if is_json_lines(file) else plain_text_of(file)
    if cut is None:
        for row in json_lines(file, where, skip_empty=True):
            yield row, _text(row, reading.field, "task.story_field")
        return
    text = "".join(line for _, line in numbered_lines(file, where))
    for story in re.split(r"\n\s*\n" if cut == "blocks" else r"\n", text):
        yield None, story.strip("\r\n")


def _part_named(line: JsonLine | None, reading: StoryReading) -> str | None:
    if line is None or reading.split_field is None:
        return None
    name = _text(line, reading.split_field, "task.split_field")
    part = part_of(name)
    if part is None:
        known = ", ".join(word for words in PARTS.values() for word in words)
        raise ValueError(f"{line.place}: field '{reading.split_field}' is '{name}'; known parts: {known}.")
    return part


def _text(line: JsonLine, field: str, setting: str) -> str:
    value = line.content.get(field)
    if field not in line.content:
        fields = ", ".join(line.content) or "none"
        raise ValueError(f"{line.place}: no field '{field}'; its fields are {fields}. Choose with {setting}.")
    if not isinstance(value, str):
        given = json.dumps(value)[:40]
        raise ValueError(f"{line.place}: field '{field}' must be text ({given} given). Choose with {setting}.")
    return value


def _dealt(story: str, reading: StoryReading, test_share: float) -> str:
    """The part of a story by a hash of its text, so that equal stories are in one part."""
    digest = hashlib.sha256(f"{reading.seed}/{story}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < test_share:
        return "test"
    return "validation" if place < test_share + reading.validation_share else "train"


def _shares(reading: StoryReading) -> str:
    shares = (reading.validation_share, reading.test_share)
    return "/".join(f"{100 * share:g}" for share in (1 - sum(shares), *shares)) + " %"


def _expect_stories(parts: dict[str, list[str]], path: Path, where: str, split: str) -> None:
    for part in PARTS:
        if not parts[part]:
            sizes = ", ".join(f"{len(stories)} {name}" for name, stories in parts.items())
            raise ValueError(
                f"{where}: '{path}' gives no {part} stories ({sizes}; split: {split}). Give more stories, larger "
                f"task.validation_share and task.test_share, or {WANTED}."
            )
