"""Reads samples files: one JSON object a line, or plain text; every fault named with file and line, nothing dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nextword.evaluation.metrics.sample import Sample, renaming
from nextword.evaluation.metrics.tokens import Unit
from nextword.runtime.corpora import Digest, is_json_lines, json_lines, numbered_lines, table_ending
from nextword.settings.config import must_be, said, wanted
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import either, named

PlainText = Literal["lines", "blocks"]
"""How plain text is cut into texts: one per line, or one between blank lines."""

_BEGINS_AS_JSON = re.compile(r'\s*(\{\s*["}]|\[\s*[{\]])')


def read_samples(
    path: Path,
    unit: Unit,
    fields: Mapping[str, str] | None = None,
    digest: Digest | None = None,
    plain_text: PlainText | None = None,
    references: Path | None = None,
) -> Iterator[Sample]:
    """The samples of a file, one at a time.

    ``fields`` has the names that the file uses for fields of a sample, such as ``{"text": "prediction"}``; ``digest``,
    a checksum, receives all bytes. How plain text is cut says ``plain_text``, or else ``plain_text_of``. ``references``
    is a file of as many texts, in the same order: the human references.

    Raises:
        ValueError: No such file, nothing in it, a line that is not a sample, or references of another number; the
            message names file and line.
    """
    renamed = dict(fields or {})
    for field in renamed:
        if field not in Sample.model_fields and field != "reference":
            near = did_you_mean(field, Sample.model_fields)
            raise ValueError(f"unknown field '{field}'.{near} Known: {', '.join(Sample.model_fields)}.")
    samples = _placed(path, renamed, plain_text_of(path, plain_text), digest)
    if references is not None:
        samples = _beside(samples, references, path, plain_text)
    seen: dict[str | int, str] = {}
    place = ""
    for place, sample in samples:
        if sample.id is not None:
            if sample.id in seen:
                raise ValueError(f"{place}: id {sample.id!r} is that of {seen[sample.id]} too")
            seen[sample.id] = place.rpartition(", ")[2]
        yield sample.bound(place, unit)
    if not place:
        raise ValueError(f"{path} is empty: it needs one JSON object a line, or plain text")


def plain_text_of(path: Path, wanted: PlainText | None = None) -> PlainText | None:
    """How a file of plain text is cut into texts; None where it holds JSON lines.

    Plain text is a file whose name does not end as one of JSON lines does (``.jsonl`` and the like), and which does not
    begin as such a file does.

    Where no way is wanted, it is cut into blocks where a blank line stands between two texts, else into lines.

    Raises:
        ValueError: It is a table of another kind, or cannot be read.
    """
    if is_json_lines(path):
        return None
    ending = table_ending(path)
    if ending is not None:
        raise ValueError(f"{path} is a table ({ending}); give one JSON object a line (.jsonl), or plain text (.txt)")
    lines = [line for _, line in numbered_lines(path)]
    if any(_BEGINS_AS_JSON.match(line) for line in lines[:1]):
        return None
    if wanted is not None:
        return wanted
    return "blocks" if re.search(r"\S[^\n]*\n\s*\n\s*\S", "".join(lines)) else "lines"


def counted_texts(path: Path, count: int, cut: PlainText | None) -> str:
    """How many texts a file has, for a message, with the other way to cut it where that may be the mistake."""
    other = either("--set plain_text=lines", "plain_text='lines'")
    how = f" (split at blank lines; {other}: one per line)" if cut == "blocks" else ""
    return f"{path} has {count} {'text' if count == 1 else 'texts'}{how}"


def _beside(
    samples: Iterator[tuple[str, Sample]], references: Path, path: Path, wanted: PlainText | None
) -> Iterator[tuple[str, Sample]]:
    """Each sample with the text of the same place in another file as its reference."""
    cut = plain_text_of(references, wanted)
    people = _placed(references, {}, cut, None)
    for number, pair in enumerate(zip_longest(samples, people)):
        if pair[0] is None or pair[1] is None:
            texts, human = (
                number + sum(1 for _ in rest) + (one is not None)
                for rest, one in zip((samples, people), pair, strict=True)
            )
            raise ValueError(
                f"{counted_texts(references, human, cut)}, {path} {texts}; references are taken by their place, "
                "one for each text"
            )
        (place, sample), (of_people, person) = pair
        if sample.references or sample.reference_token_ids:
            raise ValueError(f"{place}: has references of its own; leave {named('references', references)} out")
        if person.text is None:
            keys = ", ".join(sorted(person.model_fields_set | set(person.model_extra or ())))
            raise ValueError(
                f"{of_people}: must have the reference as 'text' ({keys or 'nothing'} given); rename its key to text"
            )
        yield place, sample.model_copy(update={"references": [person.text]})


def _placed(
    path: Path, renamed: Mapping[str, str], cut: PlainText | None, digest: Digest | None
) -> Iterator[tuple[str, Sample]]:
    """The samples with their places: of JSON lines (no ``cut``), or texts without the line end of their last line.

    Blank lines at both ends of plain text are not texts.
    """
    if cut is None:
        for line in json_lines(path, digest=digest):
            yield line.place, _sample(line.content, line.place, renamed)
        return
    if renamed:
        options = ", ".join(renaming(field, key) for field, key in renamed.items())
        raise ValueError(f"{path} is plain text, which has no fields: leave out {options}")
    lines = numbered_lines(path, digest=digest)
    blocks = (
        groupby(lines, lambda line: bool(line[1].strip()))
        if cut == "blocks"
        else ((True, [line]) for line in _without_blank_ends(lines))
    )
    for written, block in blocks:
        if written:
            numbers, parts = zip(*block, strict=True)
            text = "".join(parts).removesuffix("\n").removesuffix("\r")
            yield f"{path}, line {numbers[0]}", Sample(text=text)


def _without_blank_ends(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Blank lines between others are empty texts; those before the first and after the last come of an editor."""
    begun, blank = False, list[tuple[int, str]]()
    for line in lines:
        if not line[1].strip():
            blank.append(line)
            continue
        if begun:
            yield from blank
        begun, blank = True, []
        yield line


def _sample(content: dict[str, Any], place: str, renamed: Mapping[str, str]) -> Sample:
    for field, key in renamed.items():
        if key not in content:
            raise ValueError(
                f"{place}: no '{key}', which {renaming(field, key)} asks for.{did_you_mean(key, content)} "
                f"The line has: {', '.join(content)}."
            )
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


def _explain(error: ErrorDetails) -> str:
    where = ".".join(str(step) for step in error["loc"])
    wish = wanted(error)
    if wish is not None:
        return f"'{where}' {must_be(error['input'], wish)}"
    return f"'{where}': {said(error)}" if where else said(error)
