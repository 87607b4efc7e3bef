"""A settings class as options of a verb: its fields are the options, their texts the help."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from nextword.config import Settings, field_docstrings, validated


def options_of(settings: type[Settings]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a verb whose parameter ``settings`` is filled from options, one for each field of a class.

    Args:
        settings: The class; each field has a default.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        texts = field_docstrings(settings)
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[field.annotation, typer.Option(help=" ".join(texts[name].split()))],
            )
            for name, field in settings.model_fields.items()
        ]

        @functools.wraps(command)
        def filled(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in options}
            command(**given, settings=validated(settings, values))

        own = inspect.signature(command, eval_str=True)
        parameters = [one for one in own.parameters.values() if one.name != "settings"]
        filled.__signature__ = own.replace(parameters=[*parameters, *options])  # type: ignore[attr-defined]
        filled.__annotations__ = {}  # what the signature says, not what the function behind it takes
        return filled

    return decorate
