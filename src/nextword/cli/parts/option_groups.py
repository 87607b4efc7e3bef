"""Groups of command-line options. Each field of a settings class becomes one option."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
from pydantic import Field
from pydantic.fields import FieldInfo
from typer.models import ParameterInfo

from nextword.settings.config import Settings, field_docstrings, validated
from nextword.settings.overrides import named_path

if TYPE_CHECKING:
    from nextword.experiments.comparison.engines.engine import Engine


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command. If a parameter's type is a settings class, each field of this class becomes an option.

    The docstring of a field is the option's help. Other properties of the option are in the field's annotation, as in a
    command: ``Annotated[str, typer.Option(metavar="FILE")]``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Settings)}
    single = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    options = {name: _options_of(group) for name, group in groups.items()}

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        made = {
            name: validated(group, {option.name: values.pop(option.name) for option in options[name]})
            for name, group in groups.items()
        }
        command(**values, **made)

    every = [*single, *(option for group in options.values() for option in group)]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in every]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _options_of(group: type[Settings]) -> list[inspect.Parameter]:
    helps = field_docstrings(group)

    def option(name: str, field: FieldInfo) -> inspect.Parameter:
        said = copy.copy(next((one for one in field.metadata if isinstance(one, ParameterInfo)), typer.Option()))
        said.help = said.help or " ".join(helps[name].split())
        only, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[field.annotation, said]
        return inspect.Parameter(name, only, default=field.default, annotation=annotation)

    return [option(name, field) for name, field in group.model_fields.items()]


class ComputingOptions(Settings):
    """Device and precision of a saved model."""

    device: str = "auto"
    """Device: cpu, cuda, mps, ...; auto: an accelerator if there is one."""
    dtype: Literal["auto", "float64", "float32", "float16", "bfloat16"] = "auto"
    """Precision of the weights, for instance bfloat16; auto: as saved."""


class EngineOptions(Settings):
    """Options for the schedule of the runs, and for the CPU cores and GPUs of each run."""

    engine: str = "sequential"
    """How to schedule the runs. sequential: one after another. ray: in parallel, as Ray tasks on this machine or a
    cluster."""
    cpus: int | None = Field(default=None, ge=1)
    """CPU cores per run with --engine ray; by default the recipe's number of threads, or else 1."""
    gpus: float | None = Field(default=None, ge=0)
    """GPUs per run with --engine ray, for example 0.5; by default 1 if the machine has any."""

    def asked_for(self) -> Engine:
        """The engine that the options describe. Raises ValueError if the name ``engine`` is unknown."""
        from nextword.experiments.comparison.engines.engine import Resources, registry

        return registry.get(self.engine)(Resources(self.cpus, self.gpus))


# -- ``NAME=FILE``: files on the command line, and the systems that they belong to.


def systems_of(files: list[str]) -> dict[str, list[str]]:
    """Parse ``[NAME=]FILE`` arguments into a mapping from system name to file paths; NAME defaults to the file's stem.

    Raises:
        ValueError: If two files without a name would have the same name.
    """
    systems: dict[str, list[str]] = {}
    nameless: dict[str, str] = {}
    for given in files:
        name, path = named_path(given)
        if name is None:
            name = Path(given).stem
            if name in nameless:
                raise ValueError(
                    f"{nameless[name]} and {given}: must have different names (both are '{name}'); name them: "
                    f"one={nameless[name]} "
                    f"other={given} (or {name}= before both, if they are seeds of one system)"
                )
            nameless[name] = given
        systems.setdefault(name, []).append(path)
    return systems


def fields_of(given: list[str] | None, example: str) -> dict[str, str]:
    """Parse values ``FIELD=KEY`` into a mapping from FIELD to KEY. Raises ValueError if FIELD or KEY is empty."""
    fields: dict[str, str] = {}
    for one in given or []:
        field, _, key = one.partition("=")
        if not (field and key):
            raise ValueError(f"--field {one}: must be FIELD=NAME; write it like --field {example}")
        fields[field] = key
    return fields
