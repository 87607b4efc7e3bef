"""What a run writes and the report reads: plain numbers and text, no model and no tensor.

Every class is a frozen, strict pydantic model that refuses unknown keys, so that a file either means exactly what it
says or is refused with the place that is wrong. Likelihoods are in nats per token unless a unit says otherwise.
"""

from __future__ import annotations

from nextword.records.comparison import (
    Cost,
    CurvePoint,
    Evaluation,
    ExamplePrediction,
    Results,
    RunRecord,
    TopWord,
)
from nextword.records.environment import Environment
from nextword.records.files import SCHEMA_VERSION, Record, write_atomically
from nextword.records.values import Goal, Measure, MetricValue

__all__ = [
    "SCHEMA_VERSION",
    "Cost",
    "CurvePoint",
    "Environment",
    "Evaluation",
    "ExamplePrediction",
    "Goal",
    "Measure",
    "MetricValue",
    "Record",
    "Results",
    "RunRecord",
    "TopWord",
    "write_atomically",
]
