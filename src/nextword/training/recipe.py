"""A recipe is a TOML file; ``key.path=value`` on the command line changes it."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from nextword.registry import did_you_mean
from nextword.training.config import CompareConfig
from nextword.training.validation import validated


def built_in() -> dict[str, str]:
    """The recipes that come with the library: name and first line."""
    folder = resources.files("nextword") / "recipes"
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
        return _parsed(path.read_text(encoding="utf-8"), str(path))
    if recipe in built_in():
        return _parsed((resources.files("nextword") / "recipes" / f"{recipe}.toml").read_text("utf-8"), recipe)
    names = ", ".join(built_in())
    raise ValueError(f"{recipe}: no such file or built-in recipe.{did_you_mean(recipe, built_in())} Built in: {names}.")


def configured(recipe: dict[str, Any], overrides: Iterable[str] = ()) -> CompareConfig:
    """A recipe with its overrides, checked.

    >>> configured({"task": "lm", "methods": ["softmax"]}, ["training.steps=20", "seeds=[0, 1]"]).seeds
    [0, 1]

    Raises:
        ValueError: An override that cannot be read, an unknown key (with the nearest known one), or a wrong value.
    """
    if isinstance(recipe.get("task"), str):
        recipe = {**recipe, "task": {"name": recipe["task"]}}  # a table can take overrides of the task's settings
    return validated(CompareConfig, overridden(recipe, overrides))


def overridden(recipe: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy of ``recipe`` with each ``key.path=value`` applied, from left to right.

    The value is read as TOML, and as text where it is no TOML. A number in the path is a place in a list, from 0.

    >>> overridden({"start": {"model": "gpt2"}}, ["start.model=distilgpt2", "start.seed=3"])
    {'start': {'model': 'distilgpt2', 'seed': 3}}
    """
    changed = copy.deepcopy(recipe)
    for override in overrides:
        key, equals, value = override.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            raise ValueError(f"'{override}': an override is written key.path=value, for instance training.steps=100")
        _put(changed, parts, read_value(value), override)
    return changed


def read_value(text: str) -> Any:
    """A TOML value, or the text itself.

    >>> read_value("1e-3"), read_value("true"), read_value("gpt2"), read_value('["a", "b"]')
    (0.001, True, 'gpt2', ['a', 'b'])
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _put(table: Any, parts: Sequence[str], value: Any, override: str) -> None:
    for done, part in enumerate(parts):
        is_last = done == len(parts) - 1
        if isinstance(table, list):
            place: Any = int(part) if part.isdigit() else len(table)
            if place >= len(table):
                at = ".".join(parts[:done])
                raise ValueError(f"'{override}': {at} is a list; its entries are {at}.0 to {at}.{len(table) - 1}")
        elif isinstance(table, dict):
            place = part
            if not is_last:
                table.setdefault(part, {})
        else:
            raise ValueError(f"'{override}': {'.'.join(parts[:done])} is a value ({table!r}), not a table with keys")
        if is_last:
            table[place] = value
        else:
            table = table[place]


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{where} is no TOML: {problem}") from None
