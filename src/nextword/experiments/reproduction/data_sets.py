"""Data sets of the experiments: one folder with a subfolder per data set, or a path for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from nextword.settings.config import Settings, validated
from nextword.settings.overrides import named_path, parsed
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import named

FOLDER = resources.files("nextword.experiments.reproduction")
"""Folder of the TOML files that list experiments, data sets, models and GPUs."""

Entry = TypeVar("Entry", bound=Settings)

WHOLE = 0.9
"""A file smaller than this share of its usual size may be incomplete and gets a note; editions differ a little."""


class DataSet(Settings):
    """One data set: its files, and where to get it."""

    title: str
    """Usual name of the data set."""
    has: list[str]
    """Files and folders that must exist."""
    source: str = Field(alias="from")
    """Where to get the original."""
    sizes: dict[str, int] = Field(default={})
    """Usual sizes in bytes of files whose content does not show whether they are complete."""


@cache
def known_data_sets() -> dict[str, DataSet]:
    """A mapping from folder name to data set, for all data sets of the experiments."""
    return packaged_entries(DataSet, FOLDER / "data_sets.toml")


def packaged_entries(kind: type[Entry], file: Traversable) -> dict[str, Entry]:
    """Read a TOML file of the package. Returns a mapping from each table's name to an entry of class ``kind``."""
    return {name: validated(kind, table, name) for name, table in parsed(file.read_bytes(), file.name).items()}


class DataFolder:
    """Paths of the data sets: subfolders of ``folder``, except for those in ``places``, which maps names to paths.

    Raises:
        ValueError: If ``folder`` is not a folder, or ``places`` has an unknown data set or a path that does not exist.
    """

    def __init__(self, folder: Path | None = None, places: Mapping[str, Path] | None = None) -> None:
        if folder is not None and not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise ValueError(
                f"{named('data')}: must be a folder with a subfolder per data set ('{folder}' {what}); give a single "
                "data set as NAME=PATH"
            )
        self._folder, self._places = folder, dict(places or {})
        known = known_data_sets()
        for name in self._places:
            if name not in known:
                near = did_you_mean(name, known)
                raise ValueError(
                    f"{named('data')}: must be a known data set ('{name}' given).{near} Known: {', '.join(known)}."
                )
            if not self._places[name].exists():
                place = f"{name}={self._places[name]}"
                raise ValueError(f"{named('data')}: {place} must exist (not found). It is part of {_where(name)}.")

    @classmethod
    def of_options(cls, options: Iterable[str]) -> DataFolder:
        """Make the paths from command-line options: a folder, and ``NAME=PATH`` for single data sets.

        Raises:
            ValueError: If two folders or two paths of one data set are given, or for the same reasons as for the class.
        """
        folders: list[Path] = []
        places: dict[str, Path] = {}
        for option in options:
            name, path = named_path(option)
            if name in places:
                raise ValueError(f"{named('data')}: must name {name} once ({places[name]} and {path} given)")
            if name is None:
                folders.append(Path(path).expanduser())
            else:
                places[name] = Path(path).expanduser()
        if len(folders) > 1:
            raise ValueError(
                f"{named('data')}: must be one folder ({len(folders)} given); give single data sets as NAME=PATH"
            )
        return cls(folders[0] if folders else None, places)

    def resolved(self, wanted: Any) -> Any:
        """Convert a data path of an experiment (``"xsum/pairs.jsonl"``), or a list of such paths, to local paths.

        Raises:
            ValueError: If a file is missing or empty; the message says where to get the data set.
        """
        if isinstance(wanted, list):
            return [self.resolved(one) for one in wanted]
        name, _, inside = str(wanted).partition("/")
        root = self._root(name)
        if root.is_file():
            raise ValueError(
                f"{root} must be a folder with {', '.join(known_data_sets()[name].has)} (a file given); you can get "
                f"it from {_where(name)}"
            )
        for path in [root / part for part in ([inside] if inside else known_data_sets()[name].has)]:
            if not path.exists():
                raise ValueError(f"{path} must exist (not found). It is part of {_where(name)}.")
            if path.is_file() and path.stat().st_size == 0:
                raise ValueError(f"{path} must not be empty. It is part of {_where(name)}.")
        return str(root / inside) if inside else str(root)

    def missing(self, wanted: Iterable[Any]) -> list[str]:
        """One message for each data path in ``wanted`` whose files are missing or empty."""
        lines = []
        for one in wanted:
            try:
                self.resolved(one)
            except ValueError as problem:
                lines.append(str(problem))
        return list(dict.fromkeys(lines))

    def too_small(self, wanted: Iterable[Any]) -> list[str]:
        """One message per file of the data sets in ``wanted`` that is smaller than 90 % of its usual size."""
        lines = []
        for name in data_sets_of(wanted):
            for file, size in known_data_sets()[name].sizes.items():
                path = self._root(name) / file
                if path.is_file() and path.stat().st_size < WHOLE * size:
                    there = path.stat().st_size
                    lines.append(
                        f"{path} has {there:,} bytes, usually {size:,}: it may be incomplete; it is part of "
                        f"{_where(name)}"
                    )
        return lines

    def explained(self, problem: str, wanted: Iterable[Any]) -> list[str]:
        """Split the error message ``problem`` into lines, after adding where to get the data sets concerned.

        These are the data sets whose folders the message mentions, or if it mentions none, all data sets in ``wanted``.
        """
        meant = self.mentioned(problem, wanted) or data_sets_of(wanted)
        where = "; ".join(map(_where, meant))
        return (f"{problem} (the data is from {where})" if meant else problem).splitlines()

    def mentioned(self, problem: str, wanted: Iterable[Any]) -> list[str]:
        """Names of the data sets in ``wanted`` whose folders the message ``problem`` mentions."""
        return [name for name in data_sets_of(wanted) if str(self._root(name)) in problem]

    def _root(self, name: str) -> Path:
        if name in self._places:
            return self._places[name]
        if self._folder is None:
            raise ValueError(
                f"{named('data')}: must be a folder with {name} in it, or {name}=PATH (none given); you can get it "
                f"from {_where(name)}"
            )
        return self._folder / name


def names_of(wanted: Iterable[Any]) -> list[str]:
    """Flatten ``wanted``, whose items are data paths or lists of data paths, to one list without repetitions.

    >>> names_of(["xsum/pairs.jsonl", ["wikitext-2", "xsum/pairs.jsonl"]])
    ['xsum/pairs.jsonl', 'wikitext-2']
    """
    return list(dict.fromkeys(str(path) for one in wanted for path in (one if isinstance(one, list) else [one])))


def data_sets_of(wanted: Iterable[Any]) -> list[str]:
    """Names of the data sets to which the data paths in ``wanted`` belong, each once."""
    return list(dict.fromkeys(path.partition("/")[0] for path in names_of(wanted)))


def _where(name: str) -> str:
    data_set = known_data_sets()[name]
    return f"{data_set.title}: {data_set.source}".removesuffix(".")  # a sentence ends with it
