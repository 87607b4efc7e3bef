"""One trained model: what was asked for, what it measures, what it cost, and what the checker said."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from nextword.results.records.comparison_results import Cost, CurvePoint, Evaluation
from nextword.results.records.environment import Environment
from nextword.runtime.files import SCHEMA_VERSION, Record, VersionedRecord


class CheckedProperty(Record):
    """What ``nextword.check`` found of one property."""

    name: str
    """The property."""
    verdict: Literal["passed", "FAILED", "not checked"]
    """What was found."""
    explanation: str | None = None
    """Where it failed, and what to look at."""


class TrainingResults(VersionedRecord):
    """The content of a trained model's record.json."""

    schema_version: int = SCHEMA_VERSION
    """Version of the file format."""
    kind: Literal["train"] = "train"
    """What sort of run this is."""
    command: str
    """The command that makes this model again."""
    settings: dict[str, JsonValue]
    """What was asked for, in full."""
    head: str
    """Head spec."""
    objective: str
    """Objective spec."""
    conditioner: str | None = None
    """Conditioner spec; None: nothing conditions it."""
    data: dict[str, int | float | str]
    """Kind, sizes, split, sources and checksums of the data."""
    training: dict[str, JsonValue]
    """All training settings as they were used."""
    evaluation: Evaluation
    """What was measured on the test part."""
    checks: list[CheckedProperty]
    """What the checker said."""
    cost: Cost
    """What the training cost."""
    curve: list[CurvePoint]
    """Training loss over steps."""
    validation_curve: list[CurvePoint] = Field(default=[])
    """Validation loss over steps; empty where none was asked for."""
    best_step: int | None = None
    """The step whose weights these are, where those of the lowest validation loss were kept; None: the last."""
    facts: dict[str, JsonValue] = Field(default={})
    """What the head says about itself once it is built."""
    environment: Environment
    """Where and when."""

    @property
    def steps(self) -> int:
        """Optimiser steps that were made."""
        return self.curve[-1].step if self.curve else 0

    @property
    def passed(self) -> bool:
        """Whether the checker found no fault."""
        return all(one.verdict != "FAILED" for one in self.checks)
