"""The forms in which published data sets keep pairs of a document and its summary: which field holds what.

A form is recognised by the fields of a row, so nobody has to say which data set it is. A new one is a line in FORMS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

SPLIT = "split"
"""Field that says which part a row is of, in files of a recognised form that have one."""


@dataclass(frozen=True)
class PairForm:
    """Where the two sides of a pair stand in a row.

    Attributes:
        title: The data set that has this form, and where it is to be had.
        source: Path of the source.
        targets: Paths of the targets; those that a row has are its references, in this order.
        in_sentences: Whether a target is a list of sentences.
    """

    title: str
    source: str
    targets: tuple[str, ...]
    in_sentences: bool = False

    @property
    def fields(self) -> str:
        """Its fields, for messages."""
        return f"{self.source} and {self.targets[0]} ({self.title})"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has a source and a target in these fields."""
        sides = values_at(row, self.source), [value for path in self.targets for value in values_at(row, path)]
        return all(any(value is not None for value in side) for side in sides)


FORMS = (
    PairForm("pairs", "source", ("target",)),
    PairForm("XSum: EdinburghNLP/xsum", "document", ("summary",)),
    PairForm("CNN/DailyMail: abisee/cnn_dailymail", "article", ("highlights",)),
    PairForm(
        "SAMSum: Samsung/samsum; DialogSum: cylnlp/dialogsum",
        "dialogue",
        ("summary", "summary1", "summary2", "summary3"),
    ),
    PairForm("BookSum, chapters: kmfoda/booksum", "chapter", ("summary_text",)),
    PairForm("BookSum, paragraphs: salesforce/booksum", "text", ("summary",), in_sentences=True),
    PairForm("SQuALITY: nyu-mll/SQuALITY", "document", ("questions.0.responses[].response_text",)),
)
"""Published forms. In SQuALITY the first question is always that of the plot, and several people answered it."""


def form_of(row: Mapping[str, Any], place: str, source: str | None, target: str | None) -> PairForm:
    """The form of a file, by its first row.

    Args:
        row: The row.
        place: File and line, for messages.
        source: The field that holds the source, where the user names it.
        target: The field that holds the target.

    Raises:
        ValueError: No form fits.
    """
    if source is not None and target is not None:
        return PairForm("as named", source, (target,))
    named = [
        replace(form, source=source or form.source, targets=(target,) if target else form.targets) for form in FORMS
    ]
    fitting = next((form for form in named if form.fits(row)), None)
    if fitting is None:
        known = "; ".join(form.fields for form in named)
        raise ValueError(
            f"{place}: its fields are {', '.join(row) or 'none'}. Known forms: {known}. Name yours with "
            f"task.source_field and task.target_field."
        )
    return fitting


def values_at(row: Mapping[str, Any], path: str) -> list[Any]:
    """What stands at a path of a row; empty where the path leads nowhere.

    A step is a key, the number of an entry, or ``[]``: every entry.

    >>> row = {"questions": [{"answers": [{"text": "One."}, {"text": "Two."}]}, {"answers": []}]}
    >>> values_at(row, "questions.0.answers[].text"), values_at(row, "questions.7")
    (['One.', 'Two.'], [])
    """
    if path in row:  # also a key with dots in it
        return [row[path]]
    reached: list[Any] = [row]
    for step in re.findall(r"\[\]|[^.\[\]]+", path):
        reached = [entry for value in reached for entry in _entries(value, step)]
    return reached


def _entries(value: Any, step: str) -> Sequence[Any]:
    if step == "[]":
        return value if isinstance(value, list) else []
    if isinstance(value, list):
        return value[int(step) : int(step) + 1] if step.isdecimal() else []
    return [value[step]] if isinstance(value, Mapping) and step in value else []
