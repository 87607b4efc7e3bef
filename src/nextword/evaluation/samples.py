"""Reads samples files: one JSON object a line, every fault named with file and line, nothing dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from nextword.metrics.sample import Sample
from nextword.metrics.units import Unit
from nextword.registry import did_you_mean


class Digest(Protocol):
    """A checksum of hashlib."""

    def update(self, data: bytes, /) -> None:
        """Takes the next bytes."""


def read_samples(
    path: Path, unit: Unit, fields: Mapping[str, str] | None = None, digest: Digest | None = None
) -> Iterator[Sample]:
    """The samples of a file, one at a time.

    Args:
        path: A file with one JSON object a line, UTF-8.
        unit: How their texts are cut into tokens.
        fields: Names that the file uses for fields of a sample, for instance ``{"text": "prediction"}``.
        digest: A checksum that is told all bytes of the file.

    Raises:
        ValueError: No such file, nothing in it, or a line that is not a sample; the message names file and line.
    """
    renamed = dict(fields or {})
    _check_fields(renamed)
    seen: dict[str | int, int] = {}
    number = 0
    for number, line in _lines(path, digest):
        place = f"{path}, line {number}"
        sample = _sample(_object(line, place), place, renamed).bound(place, unit)
        if sample.id is not None:
            if sample.id in seen:
                raise ValueError(f"{place}: id {sample.id!r} is that of line {seen[sample.id]} too")
            seen[sample.id] = number
        yield sample
    if not number:
        raise ValueError(f"{path} is empty: it needs one JSON object a line")


def first_sample(path: Path, unit: Unit, fields: Mapping[str, str] | None = None) -> Sample:
    """The first sample of a file, which shows what its samples have."""
    return next(read_samples(path, unit, fields))


def _lines(path: Path, digest: Digest | None) -> Iterator[tuple[int, str]]:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a file with one JSON object a line")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a pipe or device, which can be read only once; write the samples to a file")
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if digest is not None:
                    digest.update(raw)
                try:
                    # A byte order mark at the start of the file is no content.
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as fault:
                    raise ValueError(f"{path}, line {number}: not UTF-8 ({fault.reason})") from None
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None


def _object(line: str, place: str) -> dict[str, Any]:
    if not line.strip():
        raise ValueError(f"{place}: empty line; every line is one sample")
    try:
        content = json.loads(line.rstrip("\r\n"), object_pairs_hook=_distinct)
    except json.JSONDecodeError as fault:
        hint = " (a JSON array? Write one object a line instead)" if line.lstrip().startswith("[") else ""
        raise ValueError(f"{place}: not JSON: {fault.msg} at column {fault.colno}{hint}") from None
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{place}: {fault}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{place}: expected a JSON object, got {type(content).__name__}; write one object a line")
    return content


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key '{next(key for key in keys if keys.count(key) > 1)}' comes twice")
    return content


def _sample(content: dict[str, Any], place: str, renamed: Mapping[str, str]) -> Sample:
    for field, key in renamed.items():
        if key not in content:
            near = did_you_mean(key, content)
            raise ValueError(f"{place}: no '{key}', which --field {field}={key} asks for.{near}")
    # All at once, so that two fields may swap keys or read the same one.
    content = {key: value for key, value in content.items() if key not in renamed.values()} | {
        field: content[key] for field, key in renamed.items()
    }
    if isinstance(content.get("references"), str):
        content["references"] = [content["references"]]
    try:
        return Sample.model_validate(content)
    except ValidationError as fault:
        raise ValueError("\n".join(f"{place}: {_explain(error)}" for error in fault.errors()[:5])) from None


def _explain(error: Any) -> str:
    where = ".".join(str(step) for step in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    if not where:
        return str(message)
    given = repr(error["input"])
    return f"'{where}': {message} (given: {given if len(given) <= 60 else given[:57] + '...'})"


def _check_fields(renamed: Mapping[str, str]) -> None:
    for field in renamed:
        if field not in Sample.model_fields and field != "reference":
            near = did_you_mean(field, Sample.model_fields)
            raise ValueError(f"unknown field '{field}'.{near} Known: {', '.join(Sample.model_fields)}.")
