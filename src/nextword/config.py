"""Settings: strict, frozen pydantic models whose errors say where, what and what to do."""

from __future__ import annotations

import ast
import inspect
import json
import os
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from nextword.registry import did_you_mean

M = TypeVar("M", bound=BaseModel)

Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""A seed that every library takes."""

_LONGEST_SHOWN = 200
"""Characters of a wrong value that a message shows."""


class Settings(BaseModel):
    """Base of every settings model: unknown keys are errors, values are not coerced, nothing changes afterwards."""

    # Schemas are built when first used: many classes are defined by an import, few of them are filled.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class SpecSettings(Settings):
    """Settings that a short spec such as ``mos:3,static`` can name, by what stands after its colon."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Settings for the arguments of a spec: ``mos:3,static`` calls this with ``["3", "static"]``.

        Raises:
            ValueError: There are no such arguments.
        """
        if arguments:
            raise ValueError(f"takes no arguments, {','.join(arguments)!r} given")
        return {}

    def arguments(self) -> list[str]:
        """The inverse of :meth:`from_arguments`, empty where all is default."""
        return []


def read_term(text: str) -> tuple[str, list[str]]:
    """Name and arguments of a term of a spec.

    >>> read_term("mos:3, static"), read_term("cache")
    (('mos', ['3', 'static']), ('cache', []))
    """
    name, colon, rest = text.strip().partition(":")
    return name.strip(), [argument.strip() for argument in rest.split(",")] if colon else []


def write_term(name: str, arguments: list[str]) -> str:
    """The inverse of :func:`read_term`."""
    return f"{name}:{','.join(arguments)}" if arguments else name


class SettingsError(ValueError):
    """Settings that cannot be used; the message has one line for each fault."""


def validated(model: type[M], values: Mapping[str, Any], where: str = "") -> M:
    """``model`` filled with ``values`` from Python, TOML or JSON.

    They pass through JSON, so that what TOML and JSON cannot write (tuples, paths) is accepted in the form they can.

    Args:
        model: The settings class.
        values: What the user gave.
        where: Name of the part of the settings these values stand in, put before each key in messages.

    Raises:
        SettingsError: Something does not fit, for example ``head.componets: unknown key. Did you mean 'components'?``;
            one line for each fault.
    """
    try:
        text = json.dumps(dict(values), default=_plain)
    except (TypeError, ValueError) as fault:
        raise SettingsError(f"{where or model.__name__}: cannot be written as JSON: {fault}") from None
    try:
        return model.model_validate_json(text)
    except ValidationError as faults:
        raise SettingsError("\n".join(_explain(model, error, where) for error in faults.errors())) from None


def _plain(value: Any) -> Any:
    """What JSON cannot write by itself: settings within settings, and paths."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    instead = "; save it and give the file's path" if hasattr(value, "save") else ""
    raise TypeError(f"{type(value).__name__} is no plain value{instead}")


def _explain(model: type[BaseModel], error: ErrorDetails, where: str) -> str:
    at = error["loc"]
    place = ".".join(str(step) for step in ([where] if where else []) + list(at))
    if error["type"] == "extra_forbidden":
        known = sorted(fields_at(model, at[:-1]))
        return f"{place}: unknown key.{did_you_mean(str(at[-1]), known)} Known: {', '.join(known)}."
    if error["type"] == "missing":
        return f"{place}: missing; give {place}=VALUE.{_described(model, at)}"
    message = error["msg"].removeprefix("Value error, ")
    if not place:
        return message
    given = error["input"]
    # A check of several settings together has all of them as its input, which would drown the message.
    return f"{place}: {message}" if isinstance(given, dict) else f"{place}: {message} (given: {_shown(given)})"


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _described(model: type[BaseModel], at: tuple[int | str, ...]) -> str:
    """What the missing setting is, as far as its own text says so."""
    text = field_docstrings(model).get(str(at[0]), "") if len(at) == 1 else ""
    return f" {text}" if text else ""


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field of a settings model, inherited fields included.

    Read from the source when asked. Pydantic's ``use_attribute_docstrings`` reads the source of every class when it is
    defined, which takes longer than all else that importing settings does.
    """
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not issubclass(owner, BaseModel) or owner is BaseModel:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in pairwise(body.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = inspect.cleandoc(said)
    return found


def fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the settings model nested in ``model`` at ``path``; places in lists are passed over."""
    for step in path:
        field = model.model_fields.get(str(step))
        if field is not None:
            model = _model_in(field.annotation) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first settings model in an annotation such as ``list[Method]`` or ``MultiInputConfig | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(part) for part in get_args(annotation))
    return next((part for part in found if part is not None), None)
