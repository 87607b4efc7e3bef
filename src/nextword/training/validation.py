"""Checks values from TOML or Python against a pydantic model and explains what is wrong in the user's words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pydantic

from nextword.config import fields_at
from nextword.registry import did_you_mean

Model = TypeVar("Model", bound=pydantic.BaseModel)


def validated(model: type[Model], values: Mapping[str, Any], where: str = "") -> Model:
    """``values`` as a ``model``.

    They pass through JSON, so that what TOML cannot write (tuples, paths) is accepted in the form that it can.

    Args:
        model: A strict pydantic model that forbids unknown keys.
        values: Plain values: numbers, text, booleans, lists, tables.
        where: Put before each key in messages, for instance ``"data"``.

    Raises:
        ValueError: One line for each problem, with the key, and the nearest known key where the key is unknown.
    """
    try:
        text = json.dumps(dict(values))
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{where or model.__name__}: cannot be written as JSON: {problem}") from None
    try:
        return model.model_validate_json(text)
    except pydantic.ValidationError as problems:
        lines = [_explained(model, error["loc"], error["type"], error["msg"], where) for error in problems.errors()]
        raise ValueError("\n".join(lines)) from None


def _explained(model: type[pydantic.BaseModel], at: Sequence[str | int], kind: str, message: str, where: str) -> str:
    key = ".".join(str(part) for part in ([where] if where else []) + list(at))
    if kind == "extra_forbidden":
        known = sorted(fields_at(model, tuple(at[:-1])))
        return f"{key}: unknown key.{did_you_mean(str(at[-1]), known)} Known: {', '.join(known)}."
    if kind == "missing":
        return f"{key}: missing; give {key}=VALUE.{_described(model, at)}"
    message = message.removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


def _described(model: type[pydantic.BaseModel], at: Sequence[str | int]) -> str:
    """What the missing setting is, as far as its own text says so."""
    field = model.model_fields.get(str(at[0])) if len(at) == 1 else None
    return f" {field.description}" if field is not None and field.description else ""
