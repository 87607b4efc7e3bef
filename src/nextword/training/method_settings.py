"""What one model is: its head, what it is trained for, what conditions it, and what is special in its training."""

from __future__ import annotations

from typing import Any

from pydantic import Field, JsonValue, model_validator

from nextword.config import Settings

SHORT_FORM = ("head", "objective", "conditioner")
"""What a method as text says, in this order."""


class MethodSettings(Settings):
    """A head with its objective. Text is the short form ``head/objective/conditioner``; the later parts may be missing.

    Every setting of a part can be given: in its spec (``histalign:alpha=0.5``), or as a table.

    >>> MethodSettings.model_validate("cache/histalign").objective
    'histalign'
    >>> MethodSettings(head="cache", objective={"objective": "histalign", "alpha": 0.5}).objective_spec
    'histalign'
    """

    head: str | dict[str, JsonValue] = Field(min_length=1)
    """Head spec, for instance ``mos:3`` or ``softmax+mi``, or its settings as a table; ``nextword list heads`` shows
    them."""
    objective: str | dict[str, JsonValue] = Field(default="mle", min_length=1)
    """Objective spec, for instance ``histalign``, or its settings as a table; ``nextword list objectives`` shows
    them."""
    conditioner: str | dict[str, JsonValue] | None = Field(default=None, min_length=1)
    """Conditioner spec, for instance ``bergpt:2``, or its settings as a table; ``nextword list conditioners`` shows
    them. Only for tasks with an auxiliary text."""
    training: dict[str, JsonValue] = Field(default={})
    """Training settings in which this method differs from all others, for instance ``{lora = {rank = 8}}``."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        parts = [part.strip() for part in text.split("/")]
        if len(parts) > len(SHORT_FORM):
            raise ValueError(f"'{text}' has {len(parts)} parts; a method is written {'/'.join(SHORT_FORM)}")
        return dict(zip(SHORT_FORM, parts, strict=False))

    def expect_known_names(self) -> None:
        """Raises ValueError, with the nearest known name, where a head, objective or conditioner does not exist."""
        from nextword.conditioning import parse_conditioner
        from nextword.heads import parse_head
        from nextword.objectives import parse_objective

        parse_head(self.head)
        parse_objective(self.objective)
        if self.conditioner is not None:
            parse_conditioner(self.conditioner)

    @property
    def spec(self) -> str:
        """The head as text; of settings in a table, those that a spec can name."""
        if isinstance(self.head, str):
            return self.head
        from nextword.heads import head_spec, parse_head

        try:
            return head_spec(parse_head(self.head))
        except ValueError:
            return str(self.head.get("head", self.head))  # what is wrong with it is said where it is built

    @property
    def objective_spec(self) -> str:
        """The objective as text; of settings in a table, those that a spec can name."""
        return spec_of_objective(self.objective)

    @property
    def conditioner_spec(self) -> str | None:
        """The conditioner as text; of settings in a table, those that a spec can name."""
        if not isinstance(self.conditioner, dict):
            return self.conditioner
        from nextword.conditioning import conditioner_spec, parse_conditioner

        try:
            return conditioner_spec(parse_conditioner(self.conditioner))
        except ValueError:
            return str(self.conditioner.get("conditioner", self.conditioner))


def spec_of_objective(objective: str | dict[str, JsonValue]) -> str:
    """An objective as text; of settings in a table, those that a spec can name."""
    if isinstance(objective, str):
        return objective
    from nextword.objectives import objective_spec, parse_objective

    try:
        return objective_spec(parse_objective(objective))
    except ValueError:
        return str(objective.get("objective", objective))
