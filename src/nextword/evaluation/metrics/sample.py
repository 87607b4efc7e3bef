"""A sample: one line of a samples file, which is all that a metric reads."""

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
    """How a user says that a field is read from another key."""
    return either(f"--field {field}={key}", f"fields={{'{field}': '{key}'}}")


class MissingFieldError(ValueError):
    """A sample lacks what a metric reads."""


class Table(BaseModel):
    """A table that a text is about."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    header: list[str]
    """Names of the columns."""
    rows: list[list[str]]
    """Cells as text, each row as long as the header."""
    title: str = ""
    """Caption; empty where there is none."""

    @model_validator(mode="after")
    def _rectangular(self) -> Table:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.header):
                raise ValueError(f"row {number} of the table has {len(row)} cells, its header has {len(self.header)}")
        return self


class Sample(BaseModel):
    """What one line of a samples file holds. Every field may be absent; other keys are ignored.

    A metric asks with ``need``, so that what is absent is an error that names the line.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    id: str | int | None = None
    """Name of the example, the same for every system."""
    prompt: str | None = None
    """The text that was continued."""
    source: str | None = None
    """The document that was summarised."""
    auxiliary: str | None = None
    """What a conditioner brought in beside the prompt, such as a summary that the text was to follow."""
    text: str | None = None
    """What the system wrote, without the prompt."""
    references: list[str] | None = None
    """The human references, the first one first; ``"reference": "..."`` is short for a list of one."""
    table: Table | None = None
    """The table that was described."""
    token_ids: Ids | None = None
    """``text`` in tokens of the model."""
    prompt_token_ids: Ids | None = None
    """``prompt`` in tokens of the model."""
    reference_token_ids: list[Ids] | None = None
    """``references`` in tokens of the model."""
    target_token_ids: Ids | None = None
    """Held-out tokens that the model was asked for one by one, each after all right ones before it."""
    target_bytes: int | None = None
    """UTF-8 bytes of the text that the targets cover."""
    log_probs: list[float] | None = None
    """Log-probability of each target, in nats."""
    target_ranks: Ids | None = None
    """How many tokens were more probable than each target: 0 where none was."""
    predicted_token_ids: Ids | None = None
    """The most probable token at each target."""
    ranked_token_ids: Ids | None = None
    """The most probable next tokens of the prompt, best first."""
    right_token_ids: Ids | None = None
    """The next tokens that would be right."""

    _place: str = PrivateAttr(default="a sample")
    _unit: Unit = PrivateAttr(default_factory=Words)

    @model_validator(mode="before")
    @classmethod
    def _one_reference(cls, content: Any) -> Any:
        if isinstance(content, dict) and "reference" in content:
            if "references" in content:
                raise ValueError("give 'reference' or 'references', not both")
            content = {**content, "references": [content["reference"]]}
            del content["reference"]
        return content

    @model_validator(mode="after")
    def _lengths_agree(self) -> Sample:
        for name in ("log_probs", "target_ranks", "predicted_token_ids"):
            given = getattr(self, name)
            if given is not None and self.target_token_ids is not None and len(given) != len(self.target_token_ids):
                raise ValueError(
                    f"'{name}' has {len(given)} entries, 'target_token_ids' has {len(self.target_token_ids)}"
                )
        ids, texts = self.reference_token_ids, self.references
        if ids is not None and texts is not None and len(ids) != len(texts):
            raise ValueError(f"'reference_token_ids' has {len(ids)} entries, 'references' has {len(texts)}")
        return self

    def bound(self, place: str, unit: Unit) -> Sample:
        """This sample, told where it comes from (for messages) and how its texts are cut into tokens."""
        self._place, self._unit = place, unit
        return self

    @property
    def place(self) -> str:
        """Where the sample comes from, for messages: file and line."""
        return self._place

    @property
    def unit(self) -> Unit:
        """What its tokens are."""
        return self._unit

    def need(self, field: str, why: str) -> Any:
        """The value of a field; ``why`` is what asks for it.

        Raises:
            MissingFieldError: It is absent; the message names the line and the nearest key the line has.
        """
        value = getattr(self, field)
        if value is None or (field == "references" and not value):
            if field in self.model_fields_set:
                empty = "null" if value is None else "empty"
                raise MissingFieldError(f"{self._place}: '{field}' is {empty}, and {why} needs it.")
            keys = self.model_fields_set | set(self.model_extra or ())
            renamed = f" To read {field} from another key: {renaming(field, 'KEY')}." if self.model_extra else ""
            own_file = f" Human references in a file of their own: {named('references', 'FILE')}."
            near = did_you_mean(field, keys - {field})
            raise MissingFieldError(
                f"{self._place}: no '{field}', which {why} needs.{near} The line has: {', '.join(sorted(keys)) or '-'}."
                f"{renamed}{own_file if field == 'references' else ''}"
            )
        return value

    @cached_property
    def tokens(self) -> Int[np.ndarray, "T"]:
        """The written text in tokens: ``token_ids`` up to where the text ends, else ``text`` cut by the unit."""
        if self.token_ids is not None:
            return self._text_of(self.token_ids)
        return self._cut(self.need("text", "a metric that counts tokens"))

    @cached_property
    def prompt_tokens(self) -> Int[np.ndarray, "T"]:
        """The prompt in tokens."""
        if self.prompt_token_ids is not None:
            return self._text_of(self.prompt_token_ids)
        return self._cut(self.need("prompt", "a metric that counts tokens of the prompt"))

    @cached_property
    def reference_tokens(self) -> list[Int[np.ndarray, "T"]]:
        """Every reference in tokens."""
        if self.reference_token_ids is not None:
            return [self._text_of(ids) for ids in self.reference_token_ids]
        return [self._cut(text) for text in self.need("references", "a metric that counts tokens of references")]

    def _text_of(self, ids: Ids) -> Int[np.ndarray, "T"]:
        if not self._unit.takes_ids:
            raise ValueError(f"{self._place}: has token ids, the first sample has none: {MIXED}")
        return before_special(as_ids(ids), self._unit.special)

    def _cut(self, text: str) -> Int[np.ndarray, "T"]:
        try:
            return self._unit.ids(text)
        except ValueError as fault:
            raise ValueError(f"{self._place}: {fault}") from None

    def as_human(self) -> Sample:
        """The first reference as if a system had written it, with the others as its references.

        With a single reference it keeps itself as reference: closeness to human text is then perfect by construction.
        Held-out tokens are their own prediction: how often people repeat themselves is asked in the same way.
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


# -- Where the text of a model's token ids begins and ends: padding, beginning and end of sequence are not text.


def before_special(tokens: Int[np.ndarray, "T"], special: AbstractSet[int]) -> Int[np.ndarray, "K"]:
    """The text up to the first special token; those that it begins with, such as a start token, do not end it.

    >>> before_special(np.array([0, 5, 0, 6, 0]), {0}).tolist()
    [5]
    """
    is_special: Bool[np.ndarray, "T"] = np.zeros(len(tokens), dtype=np.bool_)
    for token in special:  # there are a handful, which is quicker than sorting them into the text
        is_special |= tokens == token
    start = _run_of(is_special)
    return tokens[start : start + _run_of(~is_special[start:])]


def _run_of(marks: Bool[np.ndarray, "T"]) -> int:
    return len(marks) if marks.all() else int(np.argmin(marks))


# -- Fields that a metric can do without: either every sample has one, or none has.


class AllOrNone:
    """Watches a field that may be absent: the first sample decides, so that no value is of some of the samples only."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._first: tuple[bool, str] | None = None

    def has(self, sample: Sample, present: bool) -> bool:
        """Whether the samples have it, as the next one, where it is ``present`` or not, shows.

        Raises:
            MissingFieldError: It differs from the first sample.
        """
        if self._first is None:
            self._first = (present, sample.place)
        first, place = self._first
        if present != first:
            lacking, having = (place, sample.place) if present else (sample.place, place)
            raise MissingFieldError(
                f"{lacking}: no '{self._field}', which {having} has; give it on every line or on none"
            )
        return present
