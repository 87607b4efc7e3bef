"""Experiments: which recipe, with which data, fills the tables of the papers; one entry each in experiments.toml."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import Field

from nextword.experiments.reproduction.data_sets import FOLDER, packaged_entries
from nextword.experiments.reproduction.paper import PaperTable
from nextword.results.records.reproduced_table import Scale
from nextword.settings.config import Settings
from nextword.settings.registry import did_you_mean

if TYPE_CHECKING:
    from nextword.experiments.comparison.comparison_settings import CompareConfig
    from nextword.experiments.reproduction.data_sets import DataFolder


FILE = FOLDER / "experiments.toml"
"""Where the experiments are written down."""

SCALES: tuple[Scale, ...] = get_args(Scale)


class AtScale(Settings):
    """An experiment at one scale."""

    recipe: str
    """Name of a built-in recipe."""
    data: dict[str, str | list[str]] = Field(default={})
    """Settings of the recipe that are paths of data: "task.data" = "wikitext-2", a data set or a file in it."""
    overrides: list[str] = Field(default=[])
    """Changes to the recipe, as on a command line: "seeds=[0,1,2]"."""
    methods: list[dict[str, Any]] = Field(default=[])
    """Methods besides the recipe's, as a recipe has them."""
    start: str | None = None
    """Another experiment whose start this one begins from too; None: its recipe's own."""
    runs_of: str | None = None
    """Another experiment that is the same comparison here: its runs are taken, and no others are made."""
    differs: list[str] = Field(default=[])
    """What stands for the paper's own models, data, methods and judges here, and what it leaves open: a sentence
    each, which every table that it fills shows."""
    minutes: float | None = None
    """Measured with one thread: training, measuring and writing."""
    start_minutes: float | None = None
    """Measured with one thread: making the start."""


class Experiment(Settings):
    """A comparison that gives numbers for tables, at one scale or several."""

    title: str
    """What is compared."""
    small: AtScale | None = None
    """On two cores in minutes, with the data of a given folder."""
    pretrained: AtScale | None = None
    """With SmolLM2-135M, on two cores in hours, with the data of a given folder."""
    paper: AtScale | None = None
    """With the paper's models and data."""

    def at(self, scale: Scale) -> AtScale | None:
        """What it is at a scale; ``None``: it is not done there."""
        return getattr(self, scale)


@cache
def known_experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    return packaged_entries(Experiment, FILE)


def find_experiment(name: str) -> Experiment:
    """An experiment by its name.

    Raises:
        ValueError: There is none; the nearest known name is given.
    """
    known = known_experiments()
    if name not in known:
        raise ValueError(f"no experiment '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    return known[name]


def expected_experiment(name: str, scale: Scale) -> AtScale:
    """An experiment at a scale.

    Raises:
        ValueError: There is none of this name, or it is not done there.
    """
    one = find_experiment(name).at(scale)
    if one is None:
        raise ValueError(f"experiment '{name}' is not done at scale {scale}")
    return one


def overrides_of(one: AtScale, data: DataFolder | None) -> list[str]:
    """Everything that differs from the recipe, as ``key.path=value``; without a folder, data as experiments name it.

    Raises:
        ValueError: Data is missing.
    """
    paths = {key: wanted if data is None else data.resolved(wanted) for key, wanted in one.data.items()}
    return [*one.overrides, *(f"{key}={json.dumps(path)}" for key, path in paths.items())]


def recipe_of(one: AtScale) -> dict[str, Any]:
    """Its recipe with its own methods behind the recipe's, before any override."""
    from nextword.experiments.comparison.comparison_settings import read

    recipe = read(one.recipe)
    return {**recipe, "methods": [*recipe["methods"], *one.methods]}


def comparison_of(
    one: AtScale, data: DataFolder, start: Path | None = None, changes: Sequence[str] = ()
) -> CompareConfig:
    """The comparison that an experiment is.

    Args:
        one: The experiment at a scale.
        data: Where its data lies.
        start: Folder of the model to begin from, where that is another experiment's.
        changes: Further overrides.

    Raises:
        ValueError: Data is missing, or an override is wrong.
    """
    from nextword.experiments.comparison.comparison_settings import configured

    begin = [] if start is None else [f"start.model={json.dumps(str(start))}"]
    config = configured(recipe_of(one), [*overrides_of(one, data), *begin, *changes])
    if start is None or config.start.model != str(start):
        return config
    return config.model_copy(update={"fine_tuning": None})  # a small start, which may not be made yet


def settings_of(config: CompareConfig) -> dict[str, Any]:
    """All settings of a comparison with all defaults: ``{"task": {...}, "training": {...}, ...}``."""
    from nextword.experiments.comparison.comparison_settings import common_settings, plain, task_config

    content = plain(config)
    del content["task_settings"]
    task, training = plain(task_config(config)), plain(common_settings(config))
    return content | {"task": {"name": config.task, **task}, "training": training}


def setting(settings: Mapping[str, Any], path: str) -> Any:
    """One of them by its path, such as ``training.learning_rate``; ``None``: not set.

    >>> setting({"training": {"steps": 5}}, "training.steps"), setting({}, "training.steps")
    (5, None)
    """
    value: Any = settings
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


# -- What a table takes at a scale, in a word or two.

WITHOUT_TRAINING = {"settings": "no training", "human": "people's judgements"}
"""Kinds of tables for which nothing is trained."""


@dataclass(frozen=True)
class Minutes:
    """Minutes of one thread, as experiments.toml has them.

    Attributes:
        runs: Training, measuring and writing.
        starts: Making the initial checkpoints, each once, also where several experiments share it.
    """

    runs: float
    starts: float


def minutes_of(table: PaperTable, scale: Scale = "small") -> Minutes | None:
    """What a table's experiments take at a scale; ``None``: not measured for one of them, or there are none."""
    done = {name: one for name in table.experiments if (one := find_experiment(name).at(scale)) is not None}
    if not done or any(one.minutes is None for one in done.values()):
        return None
    starts = {one.start or name for name, one in done.items()}
    made = [one.start_minutes for name in starts if (one := find_experiment(name).at(scale)) is not None]
    return Minutes(sum(one.minutes or 0 for one in done.values()), sum(one or 0 for one in made))


def effort(table: PaperTable, scale: Scale = "small") -> str:
    """Minutes of one thread, one run after another; "trained" where they were not measured; or why there are none."""
    if table.kind in WITHOUT_TRAINING:
        return WITHOUT_TRAINING[table.kind]
    minutes = minutes_of(table, scale)
    if minutes is not None:
        return f"about {minutes.runs + minutes.starts:.0f} min"
    if not table.experiments:
        return "a drawing"
    done_here = any(find_experiment(name).at(scale) is not None for name in table.experiments)
    return "trained" if done_here else "not done"
