"""Where the data of experiments lies: in one folder with a folder for each data set, or each where it is said."""

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
"""Where the TOML files lie that list experiments, data sets, models and GPUs."""

Entry = TypeVar("Entry", bound=Settings)

WHOLE = 0.9
"""Share of a file's usual size from which on nobody is asked whether it is whole; editions differ a little."""


class DataSet(Settings):
    """One data set: what must be there, and where it is to be had."""

    title: str
    """What people call it."""
    has: list[str]
    """Files and folders that it must have."""
    source: str = Field(alias="from")
    """Where the original is to be had."""
    sizes: dict[str, int] = Field(default={})
    """Bytes of files of which half cannot be told from the whole by reading them."""


@cache
def known_data_sets() -> dict[str, DataSet]:
    """All data sets of the experiments, by the name of their folder."""
    return packaged_entries(DataSet, FOLDER / "data_sets.toml")


def packaged_entries(kind: type[Entry], file: Traversable) -> dict[str, Entry]:
    """What a TOML file of the package lists, by name."""
    return {name: validated(kind, table, name) for name, table in parsed(file.read_bytes(), file.name).items()}


class DataFolder:
    """Data sets as files: in one folder under their names, or in places of their own.

    Raises:
        ValueError: The folder does not exist, or there is no such data set.
    """

    def __init__(self, folder: Path | None = None, places: Mapping[str, Path] | None = None) -> None:
        if folder is not None and not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise ValueError(
                f"{named('data')}: must be a folder that has a folder for each data set ('{folder}' {what}); "
                "one data set is given as NAME=PATH"
            )
        self._folder, self._places = folder, dict(places or {})
        known = known_data_sets()
        for name in self._places:
            if name not in known:
                near = did_you_mean(name, known)
                raise ValueError(f"{named('data')}: no data set '{name}'.{near} Known: {', '.join(known)}.")
            if not self._places[name].exists():
                place = f"{name}={self._places[name]}"
                raise ValueError(f"{named('data')}: {place} does not exist. It is of {_where(name)}.")

    @classmethod
    def of_options(cls, options: Iterable[str]) -> DataFolder:
        """From what was typed: a folder, and ``NAME=PATH`` for data sets that lie elsewhere.

        Raises:
            ValueError: More than one folder, or as above.
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
            raise ValueError(f"{named('data')}: must be one folder ({len(folders)} given); others as NAME=PATH")
        return cls(folders[0] if folders else None, places)

    def resolved(self, wanted: Any) -> Any:
        """Paths as experiments name them (``"xsum/pairs.jsonl"``; also in lists) as paths of files here.

        Raises:
            ValueError: One is missing, with where the data set is to be had.
        """
        if isinstance(wanted, list):
            return [self.resolved(one) for one in wanted]
        name, _, inside = str(wanted).partition("/")
        root = self._root(name)
        if root.is_file():
            raise ValueError(
                f"{root} must be a folder with {', '.join(known_data_sets()[name].has)} (a file given); "
                f"it is of {_where(name)}"
            )
        for path in [root / part for part in ([inside] if inside else known_data_sets()[name].has)]:
            if not path.exists():
                raise ValueError(f"{path} does not exist. It is of {_where(name)}.")
            if path.is_file() and path.stat().st_size == 0:
                raise ValueError(f"{path} is empty. It is of {_where(name)}.")
        return str(root / inside) if inside else str(root)

    def missing(self, wanted: Iterable[Any]) -> list[str]:
        """What of these is not there: a line for each."""
        lines = []
        for one in wanted:
            try:
                self.resolved(one)
            except ValueError as problem:
                lines.append(str(problem))
        return list(dict.fromkeys(lines))

    def too_small(self, wanted: Iterable[Any]) -> list[str]:
        """Files that are much smaller than those that people know under this name: a line for each."""
        lines = []
        for name in data_sets_of(wanted):
            for file, size in known_data_sets()[name].sizes.items():
                path = self._root(name) / file
                if path.is_file() and path.stat().st_size < WHOLE * size:
                    there = path.stat().st_size
                    lines.append(
                        f"{path} has {there:,} bytes, usually {size:,}: is all of it there? It is of {_where(name)}"
                    )
        return lines

    def explained(self, problem: str, wanted: Iterable[Any]) -> list[str]:
        """What is wrong with data in the words of what read it, with where the data is to be had."""
        meant = self.mentioned(problem, wanted) or data_sets_of(wanted)
        where = "; ".join(map(_where, meant))
        return (f"{problem} (the data is {where})" if meant else problem).splitlines()

    def mentioned(self, problem: str, wanted: Iterable[Any]) -> list[str]:
        """The data sets among these whose folder a message names."""
        return [name for name in data_sets_of(wanted) if str(self._root(name)) in problem]

    def _root(self, name: str) -> Path:
        if name in self._places:
            return self._places[name]
        if self._folder is None:
            raise ValueError(
                f"{named('data')}: must name a folder with {name} in it, or {name}=PATH ({_where(name)}); none was "
                "given"
            )
        return self._folder / name


def names_of(wanted: Iterable[Any]) -> list[str]:
    """Data as experiments name it, in one list, each once.

    >>> names_of(["xsum/pairs.jsonl", ["wikitext-2", "xsum/pairs.jsonl"]])
    ['xsum/pairs.jsonl', 'wikitext-2']
    """
    return list(dict.fromkeys(str(path) for one in wanted for path in (one if isinstance(one, list) else [one])))


def data_sets_of(wanted: Iterable[Any]) -> list[str]:
    """The data sets among them, each once."""
    return list(dict.fromkeys(path.partition("/")[0] for path in names_of(wanted)))


def _where(name: str) -> str:
    data_set = known_data_sets()[name]
    return f"{data_set.title}: {data_set.source}".removesuffix(".")  # a sentence ends with it
