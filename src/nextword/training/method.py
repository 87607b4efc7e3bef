"""One method of a comparison: a head, the objective it is trained with, and what to call it."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, model_validator

from nextword.config import Settings

TEST_TIME_OBJECTIVE = "mle"
"""Objective of a head that is only attached after training: it is never asked for a loss that is minimised."""


class Method(Settings):
    """A head with its objective. Text is the short form, with ``/`` before an objective that is not ``mle``.

    >>> Method.model_validate("cache/histalign").objective
    'histalign'
    >>> Method(head="cache", trained_as="softmax").title
    'cache (trained as softmax)'
    """

    head: str = Field(min_length=1)
    """Head spec, for instance ``mos:3`` or ``softmax+mi``; ``nextword list heads`` shows them."""
    objective: str = Field(default="mle", min_length=1)
    """Objective spec; ``nextword list objectives`` shows them."""
    label: str | None = None
    """Name in tables and figures; made from the specs where not given."""
    trained_as: str | None = None
    """Head spec used in training, where ``head`` only acts at test time and takes its place afterwards."""
    tune: bool | None = None
    """Whether the head's evaluation-time settings (a cache's temperature and weight) are chosen on validation data; by
    default only where the head was not trained."""
    note: str | None = None
    """What a reader of the report must know about this method."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        head, slash, objective = given.partition("/")
        return {"head": head.strip(), **({"objective": objective.strip()} if slash else {})}

    def expect_known_names(self) -> None:
        """Raises ValueError, with the nearest known name, where a head or objective does not exist."""
        from nextword.heads import parse_head
        from nextword.objectives import parse_objective

        try:
            parse_head(self.head)
            parse_head(self.trained_head)
            parse_objective(self.objective)
        except ValueError as problem:
            raise ValueError(f"method '{self.title}': {problem}") from None

    @property
    def title(self) -> str:
        """The label, or one made from the specs."""
        if self.label:
            return self.label
        title = self.head if self.objective == "mle" else f"{self.head}/{self.objective}"
        return f"{title} (trained as {self.trained_as})" if self.trained_as else title

    @property
    def slug(self) -> str:
        """The title as a folder name."""
        return slug(self.title)

    @property
    def is_tuned(self) -> bool:
        """Whether evaluation-time settings are chosen on validation data."""
        return self.trained_as is not None if self.tune is None else self.tune

    @property
    def trained_head(self) -> str:
        """Spec of the head that is attached in training."""
        return self.trained_as or self.head

    @property
    def trained_slug(self) -> str:
        """Folder name of the training, which methods with the same trained head and objective share."""
        return slug(f"{self.trained_head} {self.objective}")


def slug(text: str) -> str:
    """Lower case letters, digits and dashes.

    >>> slug("softmax+CPR:20,100+mi"), slug("cache (TRIME)")
    ('softmax-cpr-20-100-mi', 'cache-trime')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "method"
