"""A method, which a comparison trains and measures: head, objective, conditioner, training, generation and name."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, JsonValue, model_validator

from nextword.experiments.training.method_settings import MethodSettings, in_short, table_of_spec
from nextword.settings.config import Seed, Settings, validated
from nextword.settings.overrides import with_values

TEST_TIME_OBJECTIVE = "mle"
"""Objective of a head that is attached only after training. The objective then has no effect."""

DECODING = frozenset({"do_sample", "num_beams", "top_k", "top_p", "temperature", "max_new_tokens", "max_length"})
"""Arguments of ``generate`` that the decodings of a task set."""

SEARCHED = ("head", "objective", "conditioner", "training", "then")
"""Settings that a search may vary, because they affect training. Each name includes all settings inside it."""


class Stage(Settings):
    """A second training of the same model with another objective. Optimiser and learning rate schedule begin anew."""

    objective: str | dict[str, JsonValue] = Field(min_length=1)
    """Objective spec, or its settings as a table."""
    training: dict[str, JsonValue] = Field(default={})
    """Training settings that override those of the first stage."""


class Method(MethodSettings):
    """A method of a comparison. Short form: the string ``head/objective/conditioner``; the last two are optional.

    >>> Method.model_validate("cache/histalign").objective
    'histalign'
    >>> Method.model_validate("softmax/mle/bergpt:2").title
    'softmax with bergpt:2'
    >>> Method(head="cache", trained_as="softmax").title
    'cache (trained as softmax)'
    >>> Method(head="softmax", then=Stage(objective="unlikelihood")).title
    'softmax, then unlikelihood'
    """

    label: str | None = None
    """Name in tables and figures. By default it is made from the specs."""
    trained_as: str | None = None
    """Head spec in training, if ``head`` is used only at test time. The trained model then gets ``head`` instead."""
    from_scratch: bool = False
    """Whether to begin from random weights, which depend on the seed, instead of the initial checkpoint's weights."""
    trained: bool = True
    """Whether the method is trained. If false, its head is evaluated on the initial checkpoint, such as GPT-2."""
    then: Stage | None = None
    """A second training after the first. Methods whose first trainings have the same settings share the first."""
    tune: bool | None = None
    """Whether the head's test-time settings (a cache's temperature and weight) are chosen on validation data. By
    default they are chosen only if the head was not trained."""
    generation: dict[str, JsonValue] = Field(default={})
    """Arguments of ``generate`` for this method's texts in addition to the arguments of the decoding, for instance
    ``{decoupled = false}``."""
    note: str | None = None
    """Note on this method for the report."""
    search: dict[str, Annotated[list[JsonValue], Field(min_length=1)]] = Field(default={})
    """Grid search: the values to try for each setting, such as ``{"training.learning_rate" = [1e-5, 3e-5]}``. All
    seeds then use the combination with the lowest negative log-likelihood of the validation rows."""
    search_seed: Seed | None = None
    """Training seed of the search; none: the first seed of the comparison."""

    @model_validator(mode="after")
    def _decodings_are_the_task_s(self) -> Self:
        taken = sorted(DECODING & self.generation.keys())
        if taken:
            raise ValueError(
                f"generation.{taken[0]} is set by the task's decodings, which are the same for every "
                f"method; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _untrained_is_untrained(self) -> Self:
        for name in ("trained_as", "then", "training", "search"):
            if not self.trained and getattr(self, name):
                raise ValueError(f"{name}: must be left out if trained is false, because nothing is trained")
        return self

    @model_validator(mode="after")
    def _search_is_of_the_training(self) -> Self:
        for path in self.search:
            part, _, key = path.partition(".")
            if part not in SEARCHED or not key:
                known = ", ".join(f"{name}.KEY" for name in SEARCHED)
                raise ValueError(f"search: must name settings that a training has ({path} given); write {known}")
        for combination in self.combinations if self.search else ():
            try:
                self.with_settings(combination)
            except ValueError as problem:
                raise ValueError(f"search: {problem}") from None
        return self

    def __hash__(self) -> int:
        return hash(self.title)  # the method itself may have dictionaries, which cannot be hashed

    def expect_known_names(self) -> None:
        """Raise ValueError, with the nearest known name, if a head, objective or conditioner does not exist."""
        from nextword.heads import parse_head
        from nextword.objectives import parse_objective

        try:
            for candidate in self.candidates if self.search else ():
                candidate.expect_known_names()
            super().expect_known_names()
            parse_head(self.trained_head)
            if self.then is not None:
                parse_objective(self.then.objective)
        except ValueError as problem:
            raise ValueError(f"method '{self.title}': {problem}") from None

    @property
    def combinations(self) -> list[dict[str, JsonValue]]:
        """Combinations of the search, each a mapping from setting path to value; without a search, one empty mapping.

        >>> method = Method(head="softmax", search={"training.learning_rate": [1e-5, 3e-5], "training.steps": [10]})
        >>> method.combinations[1]
        {'training.learning_rate': 3e-05, 'training.steps': 10}
        """
        return [dict(zip(self.search, values, strict=True)) for values in itertools.product(*self.search.values())]

    @property
    def candidates(self) -> list[Method]:
        """One method per combination of the search, each with its own name; without a search, only this method."""
        if not self.search:
            return [self]
        found = []
        for one in self.combinations:
            listed = ", ".join(f"{path} = {value}" for path, value in one.items())
            found.append(self.with_settings(one).model_copy(update={"label": f"{self.title} ({listed})"}))
        return found

    def with_settings(self, chosen: Mapping[str, JsonValue]) -> Method:
        """A copy with the settings ``chosen``, a mapping from setting path to value, with the same title and no search.

        Raises:
            ValueError: If a path does not exist or a value is wrong.
        """
        plain = {**self.model_dump(mode="json"), "search": {}, "search_seed": None, "label": self.title}
        return validated(Method, with_values(plain, chosen, table_of_spec))

    @property
    def objectives(self) -> list[str | dict[str, JsonValue]]:
        """The objectives of the method's stages, in order."""
        return [self.objective, *([self.then.objective] if self.then else [])]

    @property
    def all_objectives(self) -> str:
        """The objectives of all stages as one string."""
        return ", then ".join(in_short("objective", objective) for objective in self.objectives)

    @property
    def title(self) -> str:
        """The label, or a name made from the specs."""
        if self.label:
            return self.label
        title = self.spec if self.objective == "mle" else f"{self.spec}/{self.objective_spec}"
        title += f" with {self.conditioner_spec}" if self.conditioner else ""
        title += f", then {in_short('objective', self.then.objective)}" if self.then else ""
        title += f" (trained as {self.trained_as})" if self.trained_as else ""
        title += " (from scratch)" if self.from_scratch else ""
        title += "" if self.trained else " (not trained)"
        return title

    @property
    def slug(self) -> str:
        """The title as a folder name."""
        return slug(self.title)

    @property
    def is_tuned(self) -> bool:
        """Whether the head's test-time settings are chosen on validation data."""
        return self.trained_as is not None or not self.trained if self.tune is None else self.tune

    @property
    def trained_head(self) -> str | dict[str, JsonValue]:
        """The head that is attached in training."""
        return self.trained_as or self.head

    @property
    def stages(self) -> tuple[str, ...]:
        """Folder names of the method's trainings, in order. Methods that have a name in common share that training."""
        conditioner = "" if self.conditioner is None else f" with {self.conditioner_spec}{_mark(self.conditioner)}"
        scratch = " scratch" if self.from_scratch else ""
        training = f" own {_short_hash(self.training)}" if self.training else "" if self.trained else " untrained"
        objective = re.sub(r"(?<!\d)\.(?=\d)", "0.", self.objective_spec)  # otherwise .1 and 1 give the same name
        objective += _mark(self.objective)
        head = f"{self.trained_as or self.spec}{_mark(self.trained_head)}"
        first = slug(f"{head} {objective}{conditioner}{scratch}{training}")
        if self.then is None:
            return (first,)
        return (
            first,
            f"{first}--then-{slug(in_short('objective', self.then.objective))}-{_short_hash(self.then.model_dump())}",
        )


def slug(text: str) -> str:
    """Convert text to lower-case letters, digits and dashes.

    >>> slug("softmax+CPR:20,100+mi"), slug("cache (TRIME)")
    ('softmax-cpr-20-100-mi', 'cache-trime')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "method"


def _mark(part: str | dict[str, JsonValue]) -> str:
    # distinguishes parts that would give the same folder name, such as gate_bias=-1 and gate_bias=1
    return f" {_short_hash(part)}" if isinstance(part, dict) or "=" in part else ""


def _short_hash(settings: Any) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]
