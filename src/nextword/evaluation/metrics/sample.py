"""Samples, the input of metrics. One line of a samples file is one sample."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Int
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from nextword.evaluation.metrics.tokens import MIXED, Unit, Words, as_ids
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import either, named

Ids = list[Annotated[int, Field(ge=-(2**63), lt=2**63)]]


def renaming(field: str, key: str) -> str:
    """The option or argument of ``evaluate`` with which ``field`` is read from the key ``key``, for messages."""
    return either(f"--field {field}={key}", f"fields={{'{field}': '{key}'}}")


class MissingFieldError(ValueError):
    """Raised if a sample lacks a field that a metric needs."""


class Table(BaseModel):
    """A table that a text describes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    header: list[str]
    """Names of the columns."""
    rows: list[list[str]]
    """Cells as text, (rows, columns). Each row has as many cells as the header."""
    title: str = ""
    """Caption, or an empty string."""

    @model_validator(mode="after")
    def _rectangular(self) -> Table:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.header):
                raise ValueError(
                    f"row {number} must have as many cells as the header, {len(self.header)} ({len(row)} given)"
                )
        return self


class Sample(BaseModel):
    """The content of one line of a samples file. Every field may be absent, and unknown keys are ignored.

    Metrics read fields with ``need``, which raises an error that names the line if a field is absent.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    id: str | int | None = None
    """Identifier of the example. It is the same for every system."""
    prompt: str | None = None
    """Prompt that the system continued."""
    source: str | None = None
    """Document that was summarised."""
    auxiliary: str | None = None
    """Auxiliary text of a model with a conditioner, such as a summary that the generated text should follow."""
    text: str | None = None
    """Generated text, without the prompt."""
    references: list[str] | None = None
    """Human references. ``"reference": "..."`` is short for a list with one reference."""
    table: Table | None = None
    """Table that the text describes."""
    token_ids: Ids | None = None
    """``text`` as token ids of the model."""
    prompt_token_ids: Ids | None = None
    """``prompt`` as token ids of the model."""
    reference_token_ids: list[Ids] | None = None
    """``references`` as token ids of the model."""
    target_token_ids: Ids | None = None
    """Held-out tokens that the model predicted, each from all correct tokens before it."""
    target_bytes: int | None = None
    """Number of UTF-8 bytes of the text of ``target_token_ids``."""
    log_probs: list[float] | None = None
    """Natural logarithm of the probability of each token in ``target_token_ids``."""
    target_ranks: Ids | None = None
    """For each token in ``target_token_ids``, the number of tokens that are more probable at its position."""
    predicted_token_ids: Ids | None = None
    """Most probable token at the position of each token in ``target_token_ids``."""
    ranked_token_ids: Ids | None = None
    """Most probable next tokens after the prompt, the most probable first. -1: no prediction."""
    right_token_ids: Ids | None = None
    """The two correct next tokens after the prompt."""

    _place: str = PrivateAttr(default="a sample")
    _unit: Unit = PrivateAttr(default_factory=Words)

    @model_validator(mode="before")
    @classmethod
    def _one_reference(cls, content: Any) -> Any:
        if isinstance(content, dict) and "reference" in content:
            if "references" in content:
                raise ValueError("reference, references: must not both be given; leave one out")
            content = {**content, "references": [content["reference"]]}
            del content["reference"]
        return content

    @model_validator(mode="after")
    def _lengths_agree(self) -> Sample:
        for name in ("log_probs", "target_ranks", "predicted_token_ids"):
            given = getattr(self, name)
            if given is not None and self.target_token_ids is not None and len(given) != len(self.target_token_ids):
                raise ValueError(
                    f"'{name}' must have as many entries as 'target_token_ids', {len(self.target_token_ids)} "
                    f"({len(given)} given)"
                )
        ids, texts = self.reference_token_ids, self.references
        if ids is not None and texts is not None and len(ids) != len(texts):
            raise ValueError(
                f"'reference_token_ids' must have as many entries as 'references', {len(texts)} ({len(ids)} given)"
            )
        return self

    def bound(self, place: str, unit: Unit) -> Sample:
        """Set the sample's file and line (``place``) and the ``unit`` that splits its texts, and return the sample."""
        self._place, self._unit = place, unit
        return self

    @property
    def place(self) -> str:
        """File and line of the sample, for messages."""
        return self._place

    @property
    def unit(self) -> Unit:
        """The ``Unit`` that splits the sample's texts into tokens."""
        return self._unit

    def need(self, field: str, why: str) -> Any:
        """Return the value of ``field``. ``why`` is the metric or task that needs the field, as named in the error.

        Raises:
            MissingFieldError: If the field is absent or null, or is ``references`` with an empty list. The message
                names the line and, if the field is absent, the line's most similar key.
        """
        value = getattr(self, field)
        if value is None or (field == "references" and not value):
            if field in self.model_fields_set:
                empty = "null" if value is None else "empty"
                raise MissingFieldError(f"{self._place}: '{field}' is {empty}, and {why} needs it.")
            keys = self.model_fields_set | set(self.model_extra or ())
            renamed = f" To read {field} from another key: {renaming(field, 'KEY')}." if self.model_extra else ""
            own_file = f" For human references in a separate file: {named('references', 'FILE')}."
            near = did_you_mean(field, keys - {field})
            raise MissingFieldError(
                f"{self._place}: no '{field}', which {why} needs.{near} The line has: {', '.join(sorted(keys)) or '-'}."
                f"{renamed}{own_file if field == 'references' else ''}"
            )
        return value

    @cached_property
    def tokens(self) -> Int[np.ndarray, "T"]:
        """The generated text as tokens: ``token_ids`` without special tokens around the text, or the split ``text``."""
        if self.token_ids is not None:
            return self._text_of(self.token_ids)
        return self._cut(self.need("text", "a metric that counts tokens"))

    @cached_property
    def prompt_tokens(self) -> Int[np.ndarray, "T"]:
        """The prompt as tokens."""
        if self.prompt_token_ids is not None:
            return self._text_of(self.prompt_token_ids)
        return self._cut(self.need("prompt", "a metric that counts tokens of the prompt"))

    @cached_property
    def reference_tokens(self) -> list[Int[np.ndarray, "T"]]:
        """All references as tokens."""
        if self.reference_token_ids is not None:
            return [self._text_of(ids) for ids in self.reference_token_ids]
        return [self._cut(text) for text in self.need("references", "a metric that counts tokens of references")]

    def _text_of(self, ids: Ids) -> Int[np.ndarray, "T"]:
        if not self._unit.takes_ids:
            raise ValueError(f"{self._place}: must have no token ids, because the first sample has none: {MIXED}")
        return before_special(as_ids(ids), self._unit.special)

    def _cut(self, text: str) -> Int[np.ndarray, "T"]:
        try:
            return self._unit.ids(text)
        except ValueError as fault:
            raise ValueError(f"{self._place}: {fault}") from None

    def as_human(self) -> Sample:
        """Return a sample with the first reference as its text, and the other references as its references.

        If there is only one reference, it is both the text and the reference of the new sample, so that they are equal.
        The held-out tokens ``target_token_ids`` become ``predicted_token_ids`` too, so that repetition in human text is
        measured like repetition in a model's predictions.
        """
        texts, ids, targets = self.references, self.reference_token_ids, self.target_token_ids
        if not texts and not ids and targets is None:
            self.need("references", "the human row")
        human = Sample.model_construct(
            id=self.id,
            prompt=self.prompt,
            prompt_token_ids=self.prompt_token_ids,
            source=self.source,
            table=self.table,
            text=texts[0] if texts else None,
            references=(texts[1:] or texts) if texts else None,
            token_ids=ids[0] if ids else None,
            reference_token_ids=(ids[1:] or ids) if ids else None,
            target_token_ids=targets,
            predicted_token_ids=targets,
        )
        return human.bound(f"{self._place}, reference", self._unit)


# -- Where the text in a model's token ids begins and ends. Padding, beginning and end of sequence are not text.


def before_special(tokens: Int[np.ndarray, "T"], special: AbstractSet[int]) -> Int[np.ndarray, "K"]:
    """``tokens`` after leading tokens in ``special``, such as a start token, up to the next token in ``special``.

    >>> before_special(np.array([0, 5, 0, 6, 0]), {0}).tolist()
    [5]
    """
    is_special: Bool[np.ndarray, "T"] = np.zeros(len(tokens), dtype=np.bool_)
    for token in special:  # there are few special tokens, so a loop is faster than np.isin
        is_special |= tokens == token
    start = _run_of(is_special)
    return tokens[start : start + _run_of(~is_special[start:])]


def _run_of(marks: Bool[np.ndarray, "T"]) -> int:
    return len(marks) if marks.all() else int(np.argmin(marks))


# -- Optional fields of a metric. Either every sample has such a field, or no sample has it.


class AllOrNone:
    """Checks that an optional field is present in all samples or in none."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._first: tuple[bool, str] | None = None

    def has(self, sample: Sample, present: bool) -> bool:
        """Return ``present``, which says whether ``sample``, the next sample, has the field.

        Raises:
            MissingFieldError: If only one of ``sample`` and the first sample has the field.
        """
        if self._first is None:
            self._first = (present, sample.place)
        first, place = self._first
        if present != first:
            lacking, having = (place, sample.place) if present else (sample.place, place)
            raise MissingFieldError(
                f"{lacking}: must have '{self._field}', because {having} has it; add it to every line, or remove it "
                f"from all"
            )
        return present
