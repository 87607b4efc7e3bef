"""A samples file that is written line by line and goes on after it was interrupted, whenever that was.

Beside ``NAME.jsonl`` stands ``NAME.jsonl.partial`` while it is written. Its first line says what is written into it,
each further one is a finished text. A line that was cut off is dropped, and its text is written again. When all are
there, the samples file is made of them, in the order of the prompts, and takes its place as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nextword.results.records import disk_full_explained, write_atomically
from nextword.settings.setting_names import named

RUN = "run"
"""Key of the first line of a samples file, which says how all its texts were written."""


class PartialSamples:
    """The file of one pass.

    Args:
        path: Where the samples file is to be.
        run: What makes its texts what they are: model, prompts, decoding, seed, lengths.

    Raises:
        ValueError: The file, or its unfinished part, is of another run, with the differences named, or is none of ours.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path, self.run = path, json.loads(json.dumps(run))
        self.partial = path.with_name(f"{path.name}.partial")
        self.is_finished = path.exists()
        if self.is_finished:
            _expect_same(path, _first_run(path), self.run)
            return
        self._lines: dict[int, dict[str, Any]] = {}
        if self.partial.exists():
            self._read()

    def _read(self) -> None:
        content = self.partial.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        head, *lines = whole.splitlines() or [b"{}"]
        if not whole:  # killed before the first line was whole
            self.partial.unlink()
            return
        _expect_same(self.partial, json.loads(head), self.run)
        if len(whole) < len(content):
            with self.partial.open("r+b") as file:
                file.truncate(len(whole))
        self._lines = dict(map(json.loads, lines))

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the texts that are written."""
        return frozenset(self._lines)

    def token_ids(self, number: int) -> list[int]:
        """Of a text that is written."""
        ids: list[int] = self._lines[number]["token_ids"]
        return ids

    def append(self, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Writes finished texts, numbered by their place in the samples file; those that are there stay as they are."""
        new = {number: dict(line) for number, line in lines if number not in self._lines}
        written = "".join(f"{_json([number, line])}\n" for number, line in new.items())
        with disk_full_explained(self.path):
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            head = "" if self.partial.exists() else f"{_json(self.run)}\n"
            with self.partial.open("a", encoding="utf-8", newline="") as file:
                file.write(head + written)
        self._lines |= new

    def finish(self) -> None:
        """Puts the samples file in its place."""
        first, *others = [self._lines[number] for number in sorted(self._lines)]
        lines = [{**first, RUN: self.run}, *others]
        write_atomically(self.path, "".join(f"{_json(line)}\n" for line in lines))
        self.partial.unlink(missing_ok=True)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Which entries of a run differ, a phrase each.

    >>> differences({"seed": 0, "model": "a"}, {"seed": 1, "model": "a"})
    ['seed: 0 there, 1 asked for']
    """
    return [
        f"{name}: {_shown(before, name)} there, {_shown(now, name)} asked for"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _shown(run: Mapping[str, Any], name: str) -> str:
    return _json(run[name]) if name in run else "nothing"


def _expect_same(path: Path, before: Any, now: Mapping[str, Any]) -> None:
    if not isinstance(before, dict) or not before:
        raise ValueError(f"{path} is there and was not written by nextword generate; choose another {named('out')}")
    changed = differences(before, now)
    if changed:
        raise ValueError(f"{path} is of another run ({'; '.join(changed)}); choose another {named('out')} or delete it")


def _first_run(path: Path) -> Any:
    try:
        with path.open(encoding="utf-8") as file:
            return json.loads(file.readline()).get(RUN)
    except (OSError, ValueError, AttributeError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def unfinished(batches: Sequence[Sequence[Any]], done: frozenset[int]) -> list[Sequence[Any]]:
    """The batches with a row that is not written yet, whole: what is drawn for a batch together comes out the same."""
    return [batch for batch in batches if any(row.number not in done for row in batch)]
