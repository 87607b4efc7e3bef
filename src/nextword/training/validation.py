"""Checks values from TOML or Python against a pydantic model and explains what is wrong in the user's words."""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pydantic

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
        known = sorted(_model_at(model, at[:-1]).model_fields)
        return f"{key}: unknown key.{did_you_mean(str(at[-1]), known)} Known: {', '.join(known)}."
    message = message.removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


def _model_at(model: type[pydantic.BaseModel], path: Sequence[str | int]) -> type[pydantic.BaseModel]:
    """The model that the table at ``path`` inside ``model`` is read into."""
    for part in path:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    found = (_model_in(part) for part in typing.get_args(annotation))
    return next((part for part in found if part is not None), None)
