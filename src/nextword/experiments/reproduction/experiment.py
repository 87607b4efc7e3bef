"""Experiments: the recipe and data behind the papers' tables, one entry each in experiments.toml."""

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
"""File that lists the experiments."""

SCALES: tuple[Scale, ...] = get_args(Scale)


class AtScale(Settings):
    """An experiment at one scale."""

    recipe: str
    """Name of the built-in recipe."""
    data: dict[str, str | list[str]] = Field(default={})
    """Settings of the recipe that are data paths, such as "task.data" = "wikitext-2": a data set or a file in it."""
    overrides: list[str] = Field(default=[])
    """Overrides of the recipe, as on a command line: "seeds=[0,1,2]"."""
    methods: list[dict[str, Any]] = Field(default=[])
    """Methods in addition to the recipe's, in a recipe's format."""
    start: str | None = None
    """Another experiment whose initial checkpoint this experiment shares; None: the recipe's own initial checkpoint."""
    runs_of: str | None = None
    """Another experiment that has the same comparison at this scale. Its runs are used, and this experiment trains
    nothing."""
    differs: list[str] = Field(default=[])
    """Sentences on what replaces the paper's models, data, methods and model-based metrics here, and on what the paper
    leaves open. Every table of the experiment shows them."""
    minutes: float | None = None
    """Minutes with one thread for training, evaluation and generation."""
    start_minutes: float | None = None
    """Minutes with one thread for the initial checkpoint."""


class Experiment(Settings):
    """A comparison whose results fill tables, at one scale or several."""

    title: str
    """Description of the comparison."""
    small: AtScale | None = None
    """Small scale: minutes on two cores; None: not done."""
    pretrained: AtScale | None = None
    """Scale pretrained: SmolLM2-135M, hours on two cores; None: not done."""
    paper: AtScale | None = None
    """Paper scale: the paper's models and data; None: not done."""

    def at(self, scale: Scale) -> AtScale | None:
        """The experiment at ``scale``; ``None`` if it is not done at this scale."""
        known: dict[Scale, AtScale | None] = {"small": self.small, "pretrained": self.pretrained, "paper": self.paper}
        return known[scale]


@cache
def known_experiments() -> dict[str, Experiment]:
    """Return a mapping from name to experiment, for all experiments."""
    return packaged_entries(Experiment, FILE)


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises:
        ValueError: If the name is unknown; the message suggests the nearest one.
    """
    known = known_experiments()
    if name not in known:
        raise ValueError(
            f"experiment: must be a known one ('{name}' given).{did_you_mean(name, known)} Known: {', '.join(known)}."
        )
    return known[name]


def expected_experiment(name: str, scale: Scale) -> AtScale:
    """Return the experiment ``name`` at ``scale``.

    Raises:
        ValueError: If the name is unknown, or the experiment is not done at this scale.
    """
    one = find_experiment(name).at(scale)
    if one is None:
        raise ValueError(f"experiment '{name}' is not done at scale {scale}")
    return one


def overrides_of(one: AtScale, data: DataFolder | None) -> list[str]:
    """All overrides of an experiment's recipe, as ``key.path=value``, including those that set data paths.

    ``data`` converts data paths to local paths; None: they stay as in experiments.toml, such as ``xsum/pairs.jsonl``.

    Raises:
        ValueError: If a file of ``data`` is missing or empty.
    """
    paths = {key: wanted if data is None else data.resolved(wanted) for key, wanted in one.data.items()}
    return [*one.overrides, *(f"{key}={json.dumps(path)}" for key, path in paths.items())]


def recipe_of(one: AtScale) -> dict[str, Any]:
    """The recipe with the experiment's methods appended, before any override."""
    from nextword.experiments.comparison.comparison_settings import read

    recipe = read(one.recipe)
    return {**recipe, "methods": [*recipe["methods"], *one.methods]}


def comparison_of(
    one: AtScale, data: DataFolder, start: Path | None = None, changes: Sequence[str] = ()
) -> CompareConfig:
    """Return the settings of the comparison that an experiment makes.

    Args:
        one: The experiment at a scale.
        data: Paths of the data sets.
        start: Folder of the initial checkpoint, if another experiment makes it.
        changes: Further overrides.

    Raises:
        ValueError: If data is missing or an override is wrong.
    """
    from nextword.experiments.comparison.comparison_settings import configured

    begin = [] if start is None else [f"start.model={json.dumps(str(start))}"]
    config = configured(recipe_of(one), [*overrides_of(one, data), *begin, *changes])
    if start is None or config.start.model != str(start):
        return config
    return config.model_copy(update={"fine_tuning": None})  # a small start, which may not be made yet


def settings_of(config: CompareConfig) -> dict[str, Any]:
    """All settings of a comparison, with defaults: ``{"task": {...}, "training": {...}, ...}``."""
    from nextword.experiments.comparison.comparison_settings import common_settings, plain, task_config

    content = plain(config)
    del content["task_settings"]
    task, training = plain(task_config(config)), plain(common_settings(config))
    return content | {"task": {"name": config.task, **task}, "training": training}


def setting(settings: Mapping[str, Any], path: str) -> Any:
    """Return the value at ``path``, such as ``training.learning_rate``, in nested ``settings``; ``None``: not set.

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
"""Kinds of tables that need no training, with the reason."""


@dataclass(frozen=True)
class Minutes:
    """Duration with one thread, from experiments.toml.

    Attributes:
        runs: Minutes of training, evaluation and generation.
        starts: Minutes of making initial checkpoints. A checkpoint that several experiments share counts once.
    """

    runs: float
    starts: float


def minutes_of(table: PaperTable, scale: Scale = "small") -> Minutes | None:
    """Minutes of a table's experiments at ``scale``; ``None`` if there are none or the minutes of one are unknown."""
    named = table.at(scale).experiments
    asked = {name: one for name in named if (one := find_experiment(name).at(scale)) is not None}
    done = {of: expected_experiment(of, scale) for of in (one.runs_of or name for name, one in asked.items())}
    if not done or any(one.minutes is None for one in done.values()):
        return None
    starts = {one.start or name for name, one in done.items()}
    made = [one.start_minutes for name in starts if (one := find_experiment(name).at(scale)) is not None]
    return Minutes(sum(one.minutes or 0 for one in done.values()), sum(one or 0 for one in made))


def effort(table: PaperTable, scale: Scale = "small") -> str:
    """Duration of a table's experiments in words, such as "about 5 min" (with one thread).

    "trained" if the duration is unknown. If nothing is trained, the reason in a few words.
    """
    if table.kind in WITHOUT_TRAINING:
        return WITHOUT_TRAINING[table.kind]
    minutes = minutes_of(table, scale)
    if minutes is not None:
        return f"about {minutes.runs + minutes.starts:.0f} min"
    if not table.experiments:
        return "a drawing"
    done_here = any(find_experiment(name).at(scale) is not None for name in table.at(scale).experiments)
    return "trained" if done_here else "not done"
