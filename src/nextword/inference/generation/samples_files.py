"""Lines of samples files (docs/file-formats.md), and samples files that are still being written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.likelihood import TokenPair
from nextword.results.records import disk_full_explained, write_atomically
from nextword.runtime.resumable import OLD_KEYS, expect_same, set_ones
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


DIGITS = 6
"""Number of decimals of log-probabilities in samples files."""


def sample_line(
    tokenizer: PreTrainedTokenizerBase,
    prompt: Prompt,
    text: str,
    token_ids: Sequence[int],
    columns: Mapping[str, Any],
) -> dict[str, Any]:
    """The line of a text in a samples file, a mapping: the standard columns, then ``columns``."""
    shown = prompt.context[prompt.start :]
    read = prompt.text if prompt.source is None else prompt.source
    beside = {"source": prompt.source, "auxiliary": prompt.auxiliary}
    return {
        "id": prompt.number,
        "prompt": decoded(tokenizer, shown) if read is None else read,
        **{name: value for name, value in beside.items() if value is not None},
        "prompt_token_ids": shown,
        "text": text,
        "token_ids": token_ids,
        **columns,
    }


def texts_and_tokens(tokenizer: PreTrainedTokenizerBase, references: Sequence[str]) -> dict[str, Any]:
    """The columns ``references`` (texts) and ``reference_token_ids`` of a prompt's human references."""
    ids = tokenizer(list(references), add_special_tokens=False, verbose=False)["input_ids"]
    return {"references": list(references), "reference_token_ids": ids}


def target_columns(target: TokenPair, log_probs: Tensor) -> dict[str, Any]:
    """The columns of the scored human reference ``target``: token ids, size in bytes and log-probabilities."""
    return {
        "target_token_ids": target.target,
        "target_bytes": target.target_bytes,
        "log_probs": [round(value, DIGITS) for value in log_probs.tolist()],
    }


def decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """Decodes ids, including special tokens. Incomplete characters become U+FFFD."""
    text = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return str(text)


# -- A samples file that is written line by line, so that an interrupted run resumes.
#
# During writing there is a file ``NAME.jsonl.partial``. Its first line has the settings of the run. Each further line
# is a finished text. If a line is truncated, it is dropped, and its text is generated again. After the last text, the
# samples file is made from the lines, in the order of the prompts, and is moved to ``NAME.jsonl`` as a whole.

RUN = "run"
"""Key in the first line of a samples file under which the settings of all its texts are stored."""


class UnfinishedSamples:
    """The samples file ``path``, while it is not finished. ``run`` maps names to the settings of the run.

    Attributes:
        random: Random state after the last finished text; None if it is not stored.

    Raises:
        ValueError: If the unfinished file belongs to another run (the message names the differences), or nextword did
            not write it.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path, self.run = path, json.loads(json.dumps(run))
        self.partial = path.with_name(f"{path.name}.partial")
        self.random: Any = None
        self._lines: dict[int, dict[str, Any]] = {}
        if self.partial.exists():
            self._read()

    def _read(self) -> None:
        content = self.partial.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        head, *lines = whole.splitlines() or [b"{}"]
        if not whole:  # the process was killed before the first line was complete
            self.partial.unlink()
            return
        _expect_same(self.partial, json.loads(head), self.run)
        if len(whole) < len(content):
            with self.partial.open("r+b") as file:
                file.truncate(len(whole))
        for number, line, *random in map(json.loads, lines):
            self._lines[number] = {OLD_KEYS.get(key, key): value for key, value in line.items()}
            self.random = random[0] if random else self.random

    @property
    def done(self) -> frozenset[int]:
        """Line numbers, in the samples file, of the finished texts."""
        return frozenset(self._lines)

    def token_ids(self, number: int) -> list[int]:
        """Token ids of the finished text with the line number ``number``."""
        ids: list[int] = self._lines[number]["token_ids"]
        return ids

    def append(self, lines: Iterable[tuple[int, Mapping[str, Any]]], random: Any = None) -> None:
        """Appends finished texts, given as pairs of a line number in the samples file and the line.

        ``random`` is the random state after these texts. Give this state if later texts depend on it.
        """
        new = {number: dict(line) for number, line in lines if number not in self._lines}
        rows: list[list[Any]] = [[number, line] for number, line in new.items()]
        if rows and random is not None:  # in the line of the last text, so that both are stored or neither
            rows[-1].append(random)
        written = "".join(f"{_json(row)}\n" for row in rows)
        with disk_full_explained(self.path):
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            head = "" if self.partial.exists() else f"{_json(self.run)}\n"
            with self.partial.open("a", encoding="utf-8", newline="") as file:
                file.write(head + written)
        self._lines |= new

    def finish(self, **more: Any) -> None:
        """Writes the final samples file, with ``more`` added to its first line, and deletes the unfinished file."""
        lines = [self._lines[number] for number in sorted(self._lines)]
        lines[:1] = [{**first, **more} for first in lines[:1]]
        write_atomically(self.path, "".join(f"{_json(line)}\n" for line in lines))
        self.partial.unlink(missing_ok=True)


class PartialSamples(UnfinishedSamples):
    """The samples file of one pass, finished or not.

    Raises:
        ValueError: If the file or its unfinished version belongs to another run (the message names the differences), or
            if nextword did not write it.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.is_finished = path.exists()
        super().__init__(path, run)
        if self.is_finished:
            _expect_same(path, _first_run(path), self.run)

    def finish(self, **more: Any) -> None:
        """Writes the final samples file, with the settings of the run in its first line."""
        super().finish(**more, **{RUN: self.run})


def _expect_same(path: Path, before: Any, now: Mapping[str, Any]) -> None:
    if not isinstance(before, dict) or not before:
        raise ValueError(f"{path} exists and was not written by nextword generate; choose another {named('out')}")
    expect_same(path, "run", set_ones(before), set_ones(now))


def _first_run(path: Path) -> Any:
    try:
        with path.open(encoding="utf-8") as file:
            return json.loads(file.readline()).get(RUN)
    except (OSError, ValueError, AttributeError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
