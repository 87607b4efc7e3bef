"""Options of a verb in groups: a class for what belongs together, an option for each of its fields."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from nextword.settings.config import Settings, field_docstrings, validated


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a verb whose parameters may be groups of options: typer sees their fields in place of them.

    A group is a dataclass, whose fields are annotated as parameters of a verb are, or a settings class, whose texts
    below the fields are the help. Options without a default stand before all others.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if _is_group(hint)}
    single = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    options = {name: _options_of(group) for name, group in groups.items()}

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        made = {
            name: _filled(group, {option.name: values.pop(option.name) for option in options[name]})
            for name, group in groups.items()
        }
        command(**values, **made)

    every = [*single, *(option for group in options.values() for option in group)]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in every]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _is_group(hint: Any) -> bool:
    return is_dataclass(hint) or _is_settings(hint)


def _is_settings(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Settings)


def _filled(group: Any, values: dict[str, Any]) -> Any:
    return validated(group, values) if _is_settings(group) else group(**values)


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    if _is_settings(group):
        texts = field_docstrings(group)
        return [
            _option(name, Annotated[field.annotation, typer.Option(help=" ".join(texts[name].split()))], field.default)
            for name, field in group.model_fields.items()
        ]
    nothing = inspect.Parameter.empty
    return [
        _option(field.name, hints[field.name], nothing if field.default is MISSING else field.default)
        for field in fields(group)
    ]


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
