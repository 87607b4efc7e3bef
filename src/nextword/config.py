"""Settings: strict, frozen pydantic models whose errors say where, what and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from nextword.registry import did_you_mean

M = TypeVar("M", bound=BaseModel)


class Settings(BaseModel):
    """Base of every settings model: unknown keys are errors, values are not coerced, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


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


class SettingsError(ValueError):
    """Settings that cannot be used; the message has one line for each fault."""


def validated(model: type[M], values: Mapping[str, Any], where: str) -> M:
    """``model`` filled with ``values``.

    Args:
        model: The settings class.
        values: What the user gave.
        where: Name of the part of the settings these values stand in, for messages.

    Raises:
        SettingsError: Something does not fit, for example ``head.componets: unknown key. Did you mean 'components'?``.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as fault:
        raise SettingsError("\n".join(_explain(model, error, where) for error in fault.errors())) from None


def _explain(model: type[BaseModel], error: ErrorDetails, where: str) -> str:
    place = ".".join([where, *(str(step) for step in error["loc"])])
    if error["type"] == "extra_forbidden":
        known = fields_at(model, error["loc"][:-1])
        return f"{place}: unknown key.{did_you_mean(str(error['loc'][-1]), known)} Known: {', '.join(sorted(known))}."
    if error["type"] == "missing":
        return f"{place}: missing; it has no default."
    message = error["msg"].removeprefix("Value error, ")
    return f"{place}: {message} (given: {error['input']!r})."


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
