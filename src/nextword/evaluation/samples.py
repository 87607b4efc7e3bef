"""Reads samples files: JSON lines, or plain text. No invalid line is skipped: an error names its file and line."""

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
"""How plain text is split: into one text per line, or into texts separated by blank lines."""

_BEGINS_AS_JSON = re.compile(r'\s*(\{\s*["}]|\[\s*[{\]])')


def read_samples(
    path: Path,
    unit: Unit,
    fields: Mapping[str, str] | None = None,
    digest: Digest | None = None,
    plain_text: PlainText | None = None,
    references: Path | None = None,
) -> Iterator[Sample]:
    """Yield the samples of the file ``path``, whose texts are split into tokens by ``unit``.

    ``fields`` maps fields of a sample to keys in the file, such as ``{"text": "prediction"}``. ``digest`` is a checksum
    that is updated with all bytes of the file. ``plain_text`` sets how plain text is split (None: as ``plain_text_of``
    finds out). ``references`` is a file with one human reference per sample, in the order of the samples.

    Raises:
        ValueError: If a file does not exist or is empty, a line is not a sample, an id occurs twice, or the numbers of
            samples and references differ. The message names the file and, if there is one, the line.
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
                raise ValueError(f"{place}: id {sample.id!r} must be unique (also in {seen[sample.id]})")
            seen[sample.id] = place.rpartition(", ")[2]
        yield sample.bound(place, unit)
    if not place:
        raise ValueError(f"{path} must have one JSON object per line, or plain text (the file is empty)")


def plain_text_of(path: Path, wanted: PlainText | None = None) -> PlainText | None:
    """How the plain-text file ``path`` is split into texts. None for a file of JSON lines.

    A file is plain text if neither its name (such as ``.jsonl``) nor its first characters show JSON lines.

    The answer is ``wanted`` if it is given. Otherwise it is "blocks" if a blank line is between two lines with text,
    and "lines" if not.

    Raises:
        ValueError: If the file is a table, such as CSV, or cannot be read.
    """
    if is_json_lines(path):
        return None
    ending = table_ending(path)
    if ending is not None:
        raise ValueError(
            f"{path} must be JSON lines (.jsonl) or plain text (.txt) (a {ending} table given); convert it"
        )
    lines = [line for _, line in numbered_lines(path)]
    if any(_BEGINS_AS_JSON.match(line) for line in lines[:1]):
        return None
    if wanted is not None:
        return wanted
    return "blocks" if re.search(r"\S[^\n]*\n\s*\n\s*\S", "".join(lines)) else "lines"


def counted_texts(path: Path, count: int, cut: PlainText | None) -> str:
    """Message that ``path`` has ``count`` texts. If ``cut`` is "blocks", it also says how to split into lines."""
    other = either("--set plain_text=lines", "plain_text='lines'")
    how = f" (split at blank lines; {other}: one per line)" if cut == "blocks" else ""
    return f"{path} has {count} {'text' if count == 1 else 'texts'}{how}"


def _beside(
    samples: Iterator[tuple[str, Sample]], references: Path, path: Path, wanted: PlainText | None
) -> Iterator[tuple[str, Sample]]:
    """Yield each sample with its reference, which is the text at the same position in another file."""
    cut = plain_text_of(references, wanted)
    people = _placed(references, {}, cut, None)
    for number, pair in enumerate(zip_longest(samples, people)):
        if pair[0] is None or pair[1] is None:
            texts, human = (
                number + sum(1 for _ in rest) + (one is not None)
                for rest, one in zip((samples, people), pair, strict=True)
            )
            raise ValueError(
                f"{counted_texts(references, human, cut)}, {path} {texts}; give one reference per text, in the same "
                f"order"
            )
        (place, sample), (of_people, person) = pair
        if sample.references or sample.reference_token_ids:
            raise ValueError(
                f"{place}: must not have references if a file of references is given; leave "
                f"{named('references', references)} out"
            )
        if person.text is None:
            keys = ", ".join(sorted(person.model_fields_set | set(person.model_extra or ())))
            raise ValueError(
                f"{of_people}: must have the reference as 'text' ({keys or 'nothing'} given); rename its key to text"
            )
        yield place, sample.model_copy(update={"references": [person.text]})


def _placed(
    path: Path, renamed: Mapping[str, str], cut: PlainText | None, digest: Digest | None
) -> Iterator[tuple[str, Sample]]:
    """The samples with file and line, from JSON lines (``cut`` is None) or from plain text without the final newline.

    Blank lines at the beginning and the end of plain text are ignored.
    """
    if cut is None:
        for line in json_lines(path, digest=digest):
            yield line.place, _sample(line.content, line.place, renamed)
        return
    if renamed:
        options = ", ".join(renaming(field, key) for field, key in renamed.items())
        raise ValueError(f"{path}: plain text has no fields; leave out {options}")
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
    """Remove blank lines at the beginning and the end, which editors may add. Others are empty texts."""
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
                f"{place}: must have '{key}', because of {renaming(field, key)}.{did_you_mean(key, content)} "
                f"The line has: {', '.join(content)}."
            )
    # all fields are renamed at the same time, so that two fields may swap keys or read the same key
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
