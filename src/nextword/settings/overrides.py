"""Settings in a TOML file, and overrides ``key.path=value`` on the command line."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_FOR_DATA = "To train on a file, name it as data: train --data FILE, compare --task lm --data FILE."

TableOf = Callable[[Sequence[str], str], dict[str, Any] | None]
"""Function of a path and the text there. It returns the table that the text is short for, or None if there is none."""


def parsed(content: bytes, where: str) -> dict[str, Any]:
    """Parses ``content``, the bytes of the TOML file ``where``. ValueError, which names the file, if it is invalid."""
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise ValueError(
            f"{where} is not a recipe: a recipe is TOML, which is text in UTF-8 ({problem}). {_FOR_DATA}"
        ) from None
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{where} is not a recipe: it is not TOML: {problem}. {_FOR_DATA}") from None


def recipe_and_overrides(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Splits command-line words into the recipe (the first word, if it has no ``=``) and the overrides.

    >>> recipe_and_overrides(["mine.toml", "seed=3"]), recipe_and_overrides(["seed=3"])
    (('mine.toml', ['seed=3']), (None, ['seed=3']))

    Raises:
        ValueError: If a word after the first is not an override.
    """
    recipe, overrides = (None, list(words)) if not words or "=" in words[0] else (words[0], list(words[1:]))
    for word in overrides:
        if "=" not in word:
            raise ValueError(f"'{word}': only the first word names a recipe, the others are written key.path=value")
    return recipe, overrides


def overridden(
    recipe: dict[str, Any], overrides: Iterable[str], table_of: TableOf = lambda path, text: None
) -> dict[str, Any]:
    """A copy of ``recipe`` with each ``key.path=value`` applied, from left to right.

    Values are parsed as TOML, or used as text if they are not TOML. Missing tables in a path are created. A number in
    the path is a list index, from 0. If a path leads into a text that is short for a table, such as ``mos:3``, the text
    is replaced by the table that ``table_of`` returns.

    >>> overridden({"start": {"model": "gpt2"}}, ["start.model=distilgpt2", "start.seed=3"])
    {'start': {'model': 'distilgpt2', 'seed': 3}}

    Raises:
        ValueError: If an override has another form, a list lacks the index, or a path leads into a value that is
                neither a table nor a list.
    """
    changed = copy.deepcopy(recipe)
    for override in overrides:
        key, equals, value = override.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            raise ValueError(f"'{override}': an override is written key.path=value, for instance training.steps=100")
        _put(changed, parts, read_value(value), override, table_of)
    return changed


def with_values(recipe: dict[str, Any], values: Mapping[str, Any], table_of: TableOf) -> dict[str, Any]:
    """Like ``overridden``, but with ``values``, a mapping from ``key.path`` to the value, which is not parsed."""
    changed = copy.deepcopy(recipe)
    for path, value in values.items():
        _put(changed, path.split("."), value, f"{path}={value}", table_of)
    return changed


def read_value(text: str) -> Any:
    """Parses ``text`` as a TOML value. Text that is not a TOML value is returned unchanged.

    >>> read_value("1e-3"), read_value("true"), read_value("gpt2"), read_value('["a", "b"]')
    (0.001, True, 'gpt2', ['a', 'b'])
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def named_path(given: str) -> tuple[str | None, str]:
    """Splits ``NAME=PATH``. The name is None if there is no ``=``, or if the whole text is an existing path."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and not Path(given).exists() else (None, given)


def _put(table: Any, parts: Sequence[str], value: Any, override: str, table_of: TableOf) -> None:
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
            return
        if isinstance(table[place], str):
            table[place] = table_of(parts[: done + 1], table[place]) or table[place]
        table = table[place]
