"""Settings as strict, frozen pydantic models. Error messages name the setting, the fault and the remedy."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import named


class DeferredModel(BaseModel):
    """Base class of settings and records. Unknown keys are errors, values are not converted, instances are frozen."""

    # a schema is built when it is first used, because most of the classes that an import defines are never used
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Builds the schema only from the names in the class's module."""
        # pydantic would also read the local names of the code that made the first instance, which is not our code. On
        # Python 3.13.0 this ends the process.
        return super().model_rebuild(**{**options, "_parent_namespace_depth": 0})


M = TypeVar("M", bound=BaseModel)

LARGEST = 2**32 - 1
"""Upper limit of all integer settings, which prevents overflows. Settings whose cost in time or memory grows with the
value have lower limits."""

Seed = Annotated[int, Field(ge=0, le=LARGEST)]
"""A seed in the range that every library accepts."""

_LONGEST_SHOWN = 200
"""Maximum number of characters of a wrong value shown in a message."""


class Settings(DeferredModel):
    """Base class of all settings models."""

    @model_validator(mode="after")
    def _numbers_fit(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            for number in value if isinstance(value, list | tuple) else (value,):
                if isinstance(number, int) and abs(number) > LARGEST:
                    raise ValueError(f"{name} {must_be(number, f'at most {LARGEST:,}')}")
        return self


class SettingsError(ValueError):
    """Invalid settings. The message has one line per fault."""


def validated(model: type[M], values: Mapping[str, Any], where: str = "") -> M:
    """Makes an instance of ``model`` from ``values``, which come from Python, TOML or JSON.

    The values are converted to JSON first, so types of Python are accepted: a tuple becomes a list, a path a string.
    Error messages put ``where``, the section with these values, before each key.

    Raises:
        SettingsError: If values are invalid, for example ``head.componets: unknown key. Did you mean 'components'?``.
            The message has one line per fault.
    """
    try:
        text = json.dumps(dict(values), default=_plain)
    except (TypeError, ValueError) as fault:
        raise SettingsError(f"{where or model.__name__}: cannot be written as JSON: {fault}") from None
    try:
        return model.model_validate_json(text)
    except ValidationError as faults:
        if faults.errors()[0]["type"] == "json_invalid":
            expect_whole_characters_in(json.loads(text), where)
        raise SettingsError("\n".join(_explained(model, faults.errors(), where))) from None


def expect_whole_characters_in(values: Any, where: str = "") -> None:
    """Raises SettingsError if a text in ``values`` has half a character (an unpaired surrogate)."""
    for at, text in _texts(values):
        try:
            expect_whole_characters(text, _place(where, at))
        except ValueError as fault:
            raise SettingsError(str(fault)) from None


def _texts(values: Any, at: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """All texts in settings, including keys, each with its location."""
    if isinstance(values, str):
        yield at, values
    entries = values.items() if isinstance(values, dict) else enumerate(values if isinstance(values, list) else ())
    for key, value in entries:
        if isinstance(key, str):
            yield at, key
        yield from _texts(value, (*at, key))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    instead = "; save it and give the file's path" if hasattr(value, "save") else ""
    raise TypeError(f"{type(value).__name__} is not a plain value{instead}")


_WANTED = {
    "greater_than_equal": "at least {ge:,}",
    "greater_than": "more than {gt:,}",
    "less_than_equal": "at most {le:,}",
    "less_than": "less than {lt:,}",
    **dict.fromkeys(("too_short", "string_too_short"), "of length {min_length:,} or more"),
    **dict.fromkeys(("too_long", "string_too_long"), "of length {max_length:,} or less"),
    **dict.fromkeys(("literal_error", "enum"), "{expected}"),
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table with keys"),
    **dict.fromkeys(("string_type", "path_type"), "text"),
    "none_required": "nothing",
    "json_invalid": "JSON",
}
"""What a value must be, by pydantic's name of the fault. This text replaces pydantic's message."""

_KIND = re.compile(r"(constrained-)?(str|int|float)|bool|(dict|list|tuple|literal)\[.*\]")
"""Location entries that pydantic adds for the members of a union. They are not keys."""


def wanted(error: ErrorDetails) -> str | None:
    """What a value must be according to ``error``, such as ``at least 1``. None for an error of our own checks."""
    template = _WANTED.get(error["type"])
    # if a setting may be a fraction, its limits are floats such as 0.0
    limits = error.get("ctx", {}).items()
    return template and template.format(
        **{name: int(limit) if isinstance(limit, float) and limit.is_integer() else limit for name, limit in limits}
    )


def must_be(value: Any, *wishes: str) -> str:
    """A text that says that a setting must be one of ``wishes``, and which ``value`` was given.

    >>> must_be(0, "at least 1"), must_be("x", "'auto'", "a whole number")
    ('must be at least 1 (0 given)', "must be 'auto' or a whole number ('x' given)")
    """
    return f"must be {' or '.join(wishes)} ({_shown(value)} given)"


def _explained(model: type[BaseModel], errors: Sequence[ErrorDetails], where: str) -> list[str]:
    by_position: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    # unknown keys come first, because a misspelled key is often the reason why another key is missing
    for error in sorted(errors, key=lambda error: error["type"] != "extra_forbidden"):
        if error["type"] == "default_factory_not_called":
            continue  # the default depends on another setting, which has an error of its own
        first, rest = error["loc"][:1], error["loc"][1:]
        at = first + tuple(step for step in rest if not (isinstance(step, str) and _KIND.fullmatch(step)))
        by_position.setdefault(at, []).append(error)
    lines = []
    for at, found in by_position.items():
        wishes = [wish for error in found if (wish := wanted(error)) is not None]
        if len(wishes) < len(found):
            # if a setting may have several types, the error of our own check is the most helpful
            ours = [error for error in found if wanted(error) is None]
            lines += [_explain(model, error, at, where) for error in ours]
        # if no entry of a list is valid, pydantic also reports that it is too short, which is not a fault of its own
        elif not (found[0]["type"] == "too_short" and any(other[: len(at)] == at != other for other in by_position)):
            # "head.components: must be ...", but "head spec 'mos:0': components must ..."
            colon = ":" if _is_setting(where) else ""
            lines.append(f"{_place(where, at)}{colon} {must_be(found[0]['input'], *wishes)}.{_described(model, at)}")
    return lines


def _place(where: str, at: Sequence[int | str]) -> str:
    """Name of a setting in messages: ``head.components``, or in a spec ``head spec 'mos:0': components``."""
    path = ".".join(map(str, at))
    if not (where and path):
        return where or path
    return f"{where}.{path}" if _is_setting(where) else f"{where}: {path}"


def _is_setting(where: str) -> bool:
    """Whether a location is a path of settings, as in ``method 'cache': training``, and not a spec (``mos:0``)."""
    return re.fullmatch(r"[\w.-]*", where.rpartition(": ")[2]) is not None


def _explain(model: type[BaseModel], error: ErrorDetails, at: tuple[int | str, ...], where: str) -> str:
    place = _place(where, at)
    if error["type"] == "extra_forbidden":
        known = sorted(fields_at(model, at[:-1]))
        return f"{place}: unknown key.{did_you_mean(str(at[-1]), known)} Known: {', '.join(known)}."
    if error["type"] == "missing":
        return f"{place}: missing; give {named(place, 'VALUE')}.{_described(model, at)}"
    message = said(error)
    about = re.fullmatch(r"(\w+)(?::| (?=must )) ?(.*)", message, re.DOTALL)
    if about and about[1] in fields_at(model, at):  # a check of several settings whose error is about one of them
        return f"{_place(where, (*at, about[1]))}: {about[2]}"
    if not place:
        return message
    # The input of a check of several settings is all of them, which would make the message too long.
    is_said = isinstance(error["input"], dict) or _shown(error["input"]) in message
    return f"{place}: {message}" if is_said else f"{place}: {message} ({_shown(error['input'])} given)"


def said(error: ErrorDetails) -> str:
    """The message of ``error`` if one of our own checks raised it, otherwise a text with pydantic's error type."""
    if error["type"] in ("value_error", "assertion_error"):
        return str(error["ctx"]["error"])
    return f"cannot be used, {error['type'].replace('_', ' ')}"


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _described(model: type[BaseModel], at: tuple[int | str, ...]) -> str:
    text = field_docstrings(model).get(str(at[0]), "") if len(at) == 1 else ""
    return f" {' '.join(text.split())}".replace("``", "`") if text else ""


@cache
def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """A mapping from field name to docstring, for all fields of ``model`` with docstrings, also inherited ones."""
    # The source is read only when this function is called. With ``use_attribute_docstrings``, pydantic reads the source
    # of every class when it is defined, which takes longer than the rest of importing settings.
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
    """Names of the fields of the settings model at ``path`` in ``model``. Steps that are not fields are ignored."""
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


# -- Texts must have whole characters. Half a character (an unpaired surrogate) can be neither written nor tokenized.


def expect_whole_characters(text: str, place: str) -> None:
    r"""Raises ValueError if a text has half a character (an unpaired surrogate).

    >>> expect_whole_characters("bad \ud83d end", "line 3")
    Traceback (most recent call last):
    ValueError: line 3: must be text of whole characters (half of one, \ud83d, given); correct it or leave it out
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        half = text[fault.start].encode("unicode_escape").decode()
        raise ValueError(
            f"{place}: must be text of whole characters (half of one, {half}, given); correct it or leave it out"
        ) from None
