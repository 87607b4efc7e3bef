"""Lets public functions be called by their signature, with a recipe (a table of arguments), or as in old versions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from nextword.settings.config import Settings, SettingsError
from nextword.settings.registry import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

RECIPE = "recipe"
"""The parameter that contains values of several other parameters as a table."""


def begins_with_config(args: Sequence[Any]) -> bool:
    """Whether the first of ``args`` is a whole recipe, as in ``train(recipe, "runs/book")``."""
    return bool(args) and isinstance(args[0], Mapping | Settings)


@dataclass(frozen=True)
class CallForms:
    """Decorator with which a function can also be called with a recipe, with old names, or as in earlier versions.

    >>> @CallForms(tables=["training"], positions=["out"])
    ... def fit(model=None, *, seed=0, training=None, recipe=None, out=None):
    ...     return model, seed, training, out
    >>> fit("gpt2", seed=1), fit({"model": "gpt2", "seed": 1}, "runs/a")
    (('gpt2', 1, None, None), ('gpt2', 1, None, 'runs/a'))
    >>> fit(recipe={"seed": 1, "training": {"steps": 9, "bf16": True}}, model="gpt2", training={"steps": 5})
    ('gpt2', 1, {'steps': 5, 'bf16': True}, None)
    >>> fit(sed=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    nextword.settings.config.SettingsError: sed: unknown key. Did you mean 'seed'? Known: model, out, recipe, ...
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Parameters by alias. Aliases are names of earlier versions, and keys of recipes."""
    tables: Collection[str] = ()
    """Parameters that are tables. If a recipe has the same table, the two are merged: keys of the argument replace keys
    of the recipe."""
    positions: Sequence[str] = ()
    """Names of the positional arguments that followed a config in earlier versions."""
    is_config: Callable[[Sequence[Any]], bool] = begins_with_config
    """Function that returns whether the positional arguments begin with a config, as in earlier versions."""
    read: Callable[[str], Mapping[str, Any]] | None = None
    """Function that reads a recipe from its name or path. None: a recipe must be a table."""

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Returns ``function``, with its signature and docstring, which also accepts recipes and earlier call forms.

        The call raises SettingsError for a keyword or a key of the recipe that is not a parameter.
        """
        parameters = inspect.signature(function).parameters
        positional = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            names = [RECIPE, *self.positions] if self.positions and self.is_config(args) else positional
            if len(args) > len(names):
                return function(*args, **kwargs)  # raises Python's error for too many arguments
            by_position = dict(zip(names, args, strict=False))
            by_name = {self.renamed.get(name, name): value for name, value in kwargs.items()}
            for name in by_position.keys() & by_name.keys():
                raise TypeError(f"{function.__name__}() got multiple values for argument '{name}'")
            given = by_position | by_name
            recipe = given.pop(RECIPE, None)
            content = {} if recipe is None else self._content(recipe)
            if RECIPE in parameters:  # the function itself checks keys that are not parameters, and values of None
                own = {name: content[name] for name in content if name not in parameters or content[name] is None}
                given |= {RECIPE: own} if own else {}
                content = {name: value for name, value in content.items() if name not in own}
            given |= {name: self._over(name, value, given) for name, value in content.items()}
            unknown = [name for name in given if name not in parameters]
            if unknown:
                known = sorted(parameters)
                guess = did_you_mean(unknown[0], known)
                raise SettingsError(f"{unknown[0]}: unknown key.{guess} Known: {', '.join(known)}.")
            return function(**given)  # type: ignore[call-arg]

        return call

    def _content(self, recipe: Any) -> dict[str, Any]:
        if isinstance(recipe, Settings):
            recipe = recipe.model_dump(mode="json", exclude_unset=True)
        elif not isinstance(recipe, Mapping) and self.read is not None:
            recipe = self.read(str(recipe))
        return {self.renamed.get(name, name): value for name, value in recipe.items()}

    def _over(self, name: str, value: Any, given: Mapping[str, Any]) -> Any:
        over = given.get(name, value)
        if name in self.tables and isinstance(value, Mapping) and isinstance(over, Mapping):
            return {**value, **over}
        return over
