"""Prompts as text: from the command line, from plain text, from JSON lines, from what an earlier run wrote."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nextword.evaluation.metrics.parts.sample import Sample
from nextword.evaluation.metrics.parts.units import Words
from nextword.evaluation.samples import plain_text_of, read_samples
from nextword.inference.scoring.example_encoding import Example
from nextword.runtime.corpora import numbered_lines
from nextword.settings.setting_names import either
from nextword.settings.whole_characters import expect_whole_characters

FIELDS = ("prompt", "source", "auxiliary")
"""What a model may read; a line of JSON has at least one of them."""


@dataclass(frozen=True)
class TextPrompt:
    """What a model reads before it writes.

    Attributes:
        prompt: The text that is continued.
        source: What an encoder-decoder model reads.
        auxiliary: What the encoder of a conditioned model reads.
        references: What people wrote in its place, handed through to the samples.
        id: Tells it from others.

    Raises:
        ValueError: One of the texts has half a character (a surrogate without the other).
    """

    prompt: str = ""
    source: str | None = None
    auxiliary: str | None = None
    references: tuple[str, ...] = ()
    id: str | int = 0

    def __post_init__(self) -> None:
        for text in (self.prompt, self.source, self.auxiliary):
            expect_whole_characters(text or "", f"prompt {self.id}")

    def example(self, text: str) -> Example:
        """The prompt with a text after it."""
        return Example(text, self.prompt, self.source, self.auxiliary, self.id)


def read_prompts(path: Path, whole: bool = False, fields: Mapping[str, str] | None = None) -> list[TextPrompt]:
    """The prompts of a file.

    JSON lines have the fields of a samples file, ``prompt``, ``source``, ``references`` (or ``reference``) and ``id``,
    and ``auxiliary``. So a samples file of an earlier run is one too; of several texts after one prompt, the prompt is
    taken once. Of plain text each line is a prompt, an empty one too.

    Args:
        path: A ``.jsonl`` file, or plain text.
        whole: Whether plain text is one prompt, its last line end left out.
        fields: Names that the file uses for fields, for instance ``{"prompt": "question"}``.

    Raises:
        ValueError: The file cannot be read, is empty or no text, or a line has nothing that a model could read; the
            message names file and line.
    """
    if plain_text_of(path, "lines") is not None and whole:
        text = "".join(line for _, line in numbered_lines(path))
        if not text.strip():
            raise ValueError(f"{path} is empty: it needs the text of a prompt")
        return [TextPrompt(text.removesuffix("\n").removesuffix("\r"))]
    is_text = plain_text_of(path, "lines") is not None
    prompts = []
    for number, sample in enumerate(read_samples(path, Words(), fields, plain_text="lines")):
        if is_text:
            prompts.append(TextPrompt(sample.text or "", id=number))
        elif not (sample.model_extra or {}).get("sample"):
            prompts.append(_of_sample(sample, number))
    if is_text and not any(one.prompt.strip() for one in prompts):
        raise ValueError(f"{path} is empty: it needs a prompt a line")
    return prompts


def piped_prompts(text: str, whole: bool = False, fields: Mapping[str, str] | None = None) -> list[TextPrompt]:
    """The prompts of a text that came from elsewhere than a file; arguments and errors as in ``read_prompts``."""
    expect_whole_characters(text, "standard input")
    with tempfile.TemporaryDirectory() as folder, _named(file := Path(folder) / "text", "standard input"):
        file.write_text(text, encoding="utf-8", newline="")
        return read_prompts(file, whole, fields)


@contextlib.contextmanager
def _named(file: Path, name: str) -> Iterator[None]:
    """Errors about the file call it by another name."""
    try:
        yield
    except ValueError as fault:
        raise ValueError(str(fault).replace(str(file), name)) from None


def _of_sample(sample: Sample, number: int) -> TextPrompt:
    read = {field: getattr(sample, field) for field in FIELDS}
    if all(value is None for value in read.values()):
        keys = ", ".join(sample.model_dump(exclude_unset=True))
        raise ValueError(
            f"{sample.place}: must have one of {', '.join(FIELDS)} ({keys} given); name the right key with "
            f"{either('--field prompt=KEY', 'fields')}"
        )
    if read["source"] is not None and read["prompt"] == read["source"]:
        read["prompt"] = None  # samples of encoder-decoder models show the source as the prompt
    return TextPrompt(
        prompt=read["prompt"] or "",
        source=read["source"],
        auxiliary=read["auxiliary"],
        references=tuple(sample.references or ()),
        id=number if sample.id is None else sample.id,
    )
