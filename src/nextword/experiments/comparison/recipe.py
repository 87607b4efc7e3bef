"""A recipe is a TOML file; ``key.path=value`` on the command line changes it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.training.method_settings import changed_recipe
from nextword.settings.config import validated
from nextword.settings.overrides import parsed
from nextword.settings.registry import did_you_mean


def built_in() -> dict[str, str]:
    """The recipes that come with the library: name and first line."""
    folder = resources.files("nextword.experiments") / "recipes"
    texts = {
        entry.name.removesuffix(".toml"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    return {name: text.splitlines()[0].lstrip("# ") for name, text in sorted(texts.items())}


def read(recipe: str) -> dict[str, Any]:
    """The content of a recipe file, or of a built-in recipe where there is no such file.

    Raises:
        ValueError: Neither, or no TOML.
    """
    path = Path(recipe).expanduser()
    if path.is_file():
        return parsed(path.read_bytes(), str(path))
    if recipe in built_in():
        return parsed((resources.files("nextword.experiments") / "recipes" / f"{recipe}.toml").read_bytes(), recipe)
    names = ", ".join(built_in())
    raise ValueError(f"{recipe}: no such file or built-in recipe.{did_you_mean(recipe, built_in())} Built in: {names}.")


def configured(recipe: dict[str, Any], overrides: Iterable[str] = ()) -> CompareConfig:
    """A recipe with its overrides, checked.

    >>> configured({"task": "lm", "methods": ["softmax"]}, ["training.steps=20", "seeds=[0, 1]"]).seeds
    [0, 1]

    Raises:
        ValueError: An override that cannot be read, an unknown key (with the nearest known one), or a wrong value.
    """
    changed = changed_recipe(recipe, overrides)
    _expect_task_settings_in_task(changed)
    return validated(CompareConfig, changed)


def _expect_task_settings_in_task(recipe: dict[str, Any]) -> None:
    unknown = [key for key in recipe if key not in CompareConfig.model_fields]
    table = recipe.get("task")
    if not unknown or not isinstance(table, dict):
        return
    from nextword.experiments.tasks import registry

    name = table.get("name")
    settings = registry.get(name).Config.model_fields if name in registry.names() else {}
    for key in unknown:
        if key in settings:
            raise ValueError(f"{key}: is a setting of the task; give task.{key}={recipe[key]} in its place")
