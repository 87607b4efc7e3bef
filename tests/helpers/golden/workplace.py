"""A folder in which commands run, and what they printed and wrote there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from nextword.cli import app
from tests.helpers.golden.digests import digest, seeded
from tests.helpers.golden.normalised import plain, printed, record, records

TEXTS = {".html", ".csv", ".md", ".txt", ".toml", ".jinja", ".svg", ".tex"}
LEFT_OUT = ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", ".lock", "owner.txt", "trainer_state")
"""Files for going on, with folders in them; and who is at work in a folder."""


WRITTEN = 1_700_000_000
"""When all given files were written: records of data tell it."""


class Workplace:
    """An empty folder that is the current one, so that commands can be given names without a path."""

    def __init__(self) -> None:
        self.folder = Path(".")
        self.said: dict[str, str] = {}
        self.given: set[Path] = set()

    def run(self, *words: object) -> None:
        """A command of the command line. What lies there before the first one was given and is not looked at."""
        if not self.given:
            self.given = {path for path in self.folder.rglob("*") if path.is_file()}
            for path in self.given:
                os.utime(path, (WRITTEN, WRITTEN))
        seeded()
        given = [*map(str, words)]
        with patch.object(sys, "argv", ["nextword", *given]):  # which records tell
            done = CliRunner().invoke(app, given, env={"COLUMNS": "160", "NEXTWORD_DEBUG": "0"})
        wrong = done.exception
        fault = "" if wrong is None or isinstance(wrong, SystemExit) else f"\n{type(wrong).__name__}: {wrong}"
        name = f"{len(self.said):02d} nextword {' '.join(given)}"
        output = done.output.partition(" (version ")[0] if words[0] == "compare" else done.output
        self.said[name[:150]] = printed(f"exit code {done.exit_code}\n{output}{fault}", self.places)

    def data(self, name: str, text: str) -> str:
        """A file for the commands to read."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def recipe(self, name: str, **content: Any) -> str:
        """A recipe in TOML, which takes values of JSON."""
        lines = [f"{key} = {_toml(value)}" for key, value in content.items()]
        return self.data(f"{name}.toml", "\n".join(lines) + "\n")

    def compared(self, name: str, recipe: str, *words: object) -> None:
        """A comparison, and its page and table again from a record without seconds, so that figures are the same.

        Of what the comparison itself prints, all that stands before the table is kept.
        """
        self.run("compare", recipe, "--out", name, *words)
        results = self.folder / name / "results.json"
        if results.is_file():
            results.write_text(json.dumps(record(json.loads(results.read_text("utf-8")), self.places)), "utf-8")
            self.run("report", name)

    @property
    def places(self) -> list[str]:
        """What stands for this folder in texts."""
        return sorted({str(self.folder.resolve()), str(self.folder)}, key=len, reverse=True)

    def contents(self) -> dict[str, Any]:
        """Every file that is there and was not given."""
        paths = [path for path in sorted(self.folder.rglob("*")) if path.is_file() and path not in self.given]
        return {
            str(path.relative_to(self.folder)): self._content(path)
            for path in paths
            if not any(name in path.name for name in LEFT_OUT)
        }

    def _content(self, path: Path) -> Any:
        if path.suffix == ".safetensors":
            return {name: digest(tensor) for name, tensor in sorted(load_file(path).items())}
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=True) as arrays:
                return {name: digest(arrays[name]) for name in arrays if arrays[name].dtype.kind in "iufb"}
        if path.suffix in (".json", ".jsonl"):
            return records(path.read_text(encoding="utf-8"), self.places)
        if path.suffix in TEXTS:
            return plain(path.read_text(encoding="utf-8"), self.places)
        return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


def at_work(steps: Callable[[Workplace], None]) -> dict[str, Any]:
    """What the steps printed and wrote."""
    place = Workplace()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        place.folder = Path(folder)
        steps(place)
        return {"printed": place.said, "written": place.contents()}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
