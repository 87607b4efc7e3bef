"""Checks that a command does not overwrite files that it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

from nextword.runtime.corpora.part_names import text_files
from nextword.runtime.files import kind_of
from nextword.settings.setting_names import named

MODEL_MARKS = ("config.json", "adapter_config.json", "tokenizer_config.json")
"""Names of files. A folder with one of these files has a model, an adapter or a tokenizer."""

MODEL_FILES = (
    "*config.json", "*.safetensors*", "*.bin", "*.gguf", "*.model", "*.jinja", "tokenizer*", "vocab*", "merges.txt",
    "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
"""Files that are read if a folder with one of ``MODEL_MARKS`` is an input. Its other files may be overwritten."""


def expect_inputs_kept(outputs: Mapping[str, Iterable[str | Path | None]], inputs: Iterable[str | Path | None]) -> None:
    """Raises ValueError if an output file is also an input file, or if two output files are the same.

    ``outputs`` maps each option of a command to its output files. Links are resolved. Of an input folder, only the
    files that are read count: texts and tables, or files of a model. Inputs that do not exist, such as hub names, are
    ignored.
    """
    written = [(option, Path(file)) for option, files in outputs.items() for file in files if file is not None]
    for (option, file), (other, its) in combinations(written, 2):
        if _same(file, its):
            raise ValueError(f"{other}, {option}: must be different files ({its} and {file} given); give another path")
    for given in inputs:
        for read in () if given is None else _files_of(Path(given).expanduser()):
            for option, file in written:
                if _same(file, read):
                    raise ValueError(
                        f"{option} {file}: must not be a file that is read ({read} is read); give another path"
                    )


def expect_results_folder(results: Path, kind: str) -> None:
    """Raises ValueError if the file ``results`` cannot be written, or has results of another command than ``kind``."""
    there = existing_part(results.parent)
    if not there.is_dir():
        raise ValueError(f"{named('out', results.parent)}: must be a folder ({there} is a file); give another")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{named('out', results.parent)}: must be a folder that can be written to; give another")
    if results.exists() and (found := kind_of(results)) != kind:
        raise ValueError(f"{results}: must be of 'nextword {kind}' ({found} given); give another {named('out')}")


def existing_part(path: Path) -> Path:
    """The path itself if it exists, otherwise its nearest existing parent."""
    return next(one for one in (path, *path.absolute().parents) if one.exists())


def _files_of(path: Path) -> Iterator[Path]:
    if path.is_dir() and any((path / mark).is_file() for mark in MODEL_MARKS):
        yield from (file for pattern in MODEL_FILES for file in path.glob(pattern))
    elif path.is_dir():
        yield from text_files(path)
    elif path.exists():
        yield path


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()
