"""Settings of one method: head, objective, conditioner and training."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field, JsonValue, model_validator

from nextword.settings.config import Settings
from nextword.settings.overrides import overridden
from nextword.settings.specs import Grammar, split_outside

logger = logging.getLogger(__name__)

SHORT_FORM = ("head", "objective", "conditioner")
"""Components of a method's short form, in order."""


class MethodSettings(Settings):
    """A head with an objective and optionally a conditioner.

    The short form is the string ``head/objective/conditioner``; its last one or two parts may be left out. Each part is
    a spec (``histalign:alpha=0.5``) or, outside of the short form, a table of settings.

    >>> MethodSettings.model_validate("cache/histalign").objective
    'histalign'
    >>> MethodSettings(head="cache", objective={"objective": "histalign", "alpha": 0.5}).objective_spec
    'histalign'
    """

    head: str | dict[str, JsonValue] = Field(min_length=1)
    """Head spec, for instance ``mos:3`` or ``softmax+mi``, or its settings as a table. ``nextword list heads`` shows
    all heads."""
    objective: str | dict[str, JsonValue] = Field(default="mle", min_length=1)
    """Objective spec, for instance ``histalign``, or its settings as a table. ``nextword list objectives`` shows all
    objectives."""
    conditioner: str | dict[str, JsonValue] | None = Field(default=None, min_length=1)
    """Conditioner spec, for instance ``bergpt:2``, or its settings as a table. ``nextword list conditioners`` shows
    all conditioners. Only for tasks with an auxiliary text."""
    training: dict[str, JsonValue] = Field(default={})
    """Training settings of this method only, for instance ``{lora = {rank = 8}}``."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, text: Any) -> Any:
        return table_of_method(text) if isinstance(text, str) else text

    def expect_known_names(self) -> None:
        """Raise ValueError, with the nearest known name, if a head, objective or conditioner does not exist."""
        for kind in SHORT_FORM:
            if (part := getattr(self, kind)) is not None:
                _grammar(kind).parse(part)

    @property
    def spec(self) -> str:
        """The head in short form, such as ``mos:3``."""
        return in_short("head", self.head)

    @property
    def objective_spec(self) -> str:
        """The objective in short form, such as ``histalign``."""
        return in_short("objective", self.objective)

    @property
    def conditioner_spec(self) -> str | None:
        """The conditioner in short form, such as ``bergpt:2``; None: no conditioner."""
        return None if self.conditioner is None else in_short("conditioner", self.conditioner)


def in_short(kind: str, part: str | dict[str, JsonValue]) -> str:
    """The spec of ``part``, a head, objective or conditioner (``kind``) that is given as a spec or a table of settings.

    A spec is returned unchanged. The spec of a table has only its main settings (``histalign:paper``). Comparisons
    use these specs for titles and folders.
    """
    if isinstance(part, str):
        return part
    grammar = _grammar(kind)
    try:
        return grammar.title(grammar.parse(part))
    except ValueError:
        return str(part.get(kind, part))  # the code that builds the component raises the error


def _grammar(kind: str) -> Grammar[Any]:
    from nextword.conditioning.conditioner import grammar as conditioner
    from nextword.heads.head import grammar as head
    from nextword.objectives.objective import grammar as objective

    grammars: dict[str, Grammar[Any]] = {"head": head, "objective": objective, "conditioner": conditioner}
    return grammars[kind]


def table_of_method(text: str) -> dict[str, Any]:
    """Convert the short form of a method to a mapping from ``head``, ``objective`` and ``conditioner`` to their specs.

    >>> table_of_method("cache/histalign:alpha=0.5")
    {'head': 'cache', 'objective': 'histalign:alpha=0.5'}

    Raises:
        ValueError: If ``text`` has more than three parts.
    """
    parts = [part.strip() for part in split_outside(text, "/")]
    if len(parts) > len(SHORT_FORM):
        raise ValueError(
            f"'{text}': must have at most {len(SHORT_FORM)} parts, {'/'.join(SHORT_FORM)} ({len(parts)} given)"
        )
    return dict(zip(SHORT_FORM, parts, strict=False))


def table_of_spec(path: Sequence[str], text: str) -> dict[str, Any] | None:
    """Convert a spec or the short form of a method to a table; None for any other text.

    ``nextword.settings.overrides.overridden`` calls this function, so that ``objective.alpha=0.5`` changes
    ``objective = "histalign"``, and ``methods.0.objective.alpha=0.5`` changes ``methods = ["cache/histalign"]``.

    ``path`` has the keys that lead to ``text`` in the settings. If the last key is in ``SHORT_FORM``, ``text`` is a
    spec. If the last but one is ``methods``, ``text`` is the short form of a method.

    Raises:
        ValueError: If a spec cannot be parsed.

    >>> table_of_spec(["head"], "mos:5+mi"), table_of_spec(["start", "model"], "gpt2")
    ({'head': 'mos', 'components': 5, 'mi': {}}, None)
    """
    if path[-1] in SHORT_FORM:
        return _grammar(path[-1]).table(text)
    return table_of_method(text) if len(path) > 1 and path[-2] == "methods" else None


# -- Recipes: the task is a table, and its data may also be at the top level.

BESIDE_TASK = ("data", "encoder")
"""Task settings that are also allowed at the top level of a recipe: ``data = "book.txt"`` means ``task.data``."""


def with_task_table(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a recipe so that its entry ``task`` is a table with all task settings.

    Recipes of earlier versions are also converted: in these, a table ``data`` had the task settings, and its key
    ``path`` is now ``task.data``.

    >>> with_task_table({"task": "lm", "data": "book.txt"})
    {'task': {'name': 'lm', 'data': 'book.txt'}}
    >>> with_task_table({"data": {"path": "book.txt", "block": 64}})
    {'task': {'data': 'book.txt', 'block': 64}}
    """
    others = {key: value for key, value in recipe.items() if key not in ("task", *BESIDE_TASK)}
    table: Any = recipe.get("task", {})
    table = {"name": table} if isinstance(table, str) else table
    if not isinstance(table, Mapping):
        return dict(recipe)
    beside = {key: recipe[key] for key in BESIDE_TASK if recipe.get(key) is not None}
    if isinstance(old := beside.get("data"), Mapping):
        beside |= {"data" if key == "path" else key: value for key, value in old.items()}
        beside = {key: value for key, value in beside.items() if value is not old}
    settings = {**table, **beside}
    return {**others, "task": settings} if settings or "task" in recipe else others


def changed_recipe(recipe: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Apply ``overrides`` to a recipe that is not validated yet. ValueError for an override that cannot be parsed."""
    if isinstance(old := recipe.get("data"), Mapping):
        for key in old:
            _current_name(f"data.{key}")
    words = [(key, equals, value) for key, equals, value in (one.partition("=") for one in overrides)]
    current = ["".join((_current_name(key.strip()), equals, value)) for key, equals, value in words]
    return overridden(with_task_table(recipe), current, table_of_spec)


def _current_name(path: str) -> str:
    part, dot, key = path.partition(".")
    if part == "data" and dot:
        name = f"task.{'data' if key == 'path' else key}"
        logger.warning("%s is called %s now", path, name)
        return name
    return f"task.{path}" if path in BESIDE_TASK else path
