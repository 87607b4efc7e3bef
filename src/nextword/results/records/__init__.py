"""What a run writes and the report reads: plain numbers and text, no model and no tensor.

Every class is a frozen, strict pydantic model that refuses unknown keys, so that a file either means exactly what it
says or is refused with the place that is wrong. Likelihoods are in nats per token unless a unit says otherwise.
"""

from __future__ import annotations

from nextword.results.records.comparison_results import (
    WITH_PROMPT,
    Cost,
    CurvePoint,
    Evaluation,
    ExamplePrediction,
    FailedRun,
    GridSearch,
    Results,
    RunRecord,
    Span,
    TopWord,
    TriedSettings,
    WrittenExample,
    WrittenText,
)
from nextword.results.records.evaluation_results import (
    Duel,
    EvaluationResults,
    PairRecord,
    Place,
    SampleFile,
    SystemRecord,
    Wins,
)
from nextword.results.records.measured_values import Environment, Goal, Measure, MetricValue
from nextword.results.records.score_results import (
    BreakdownMeaning,
    GroupScore,
    ModelScore,
    ScoreDifference,
    ScoreResults,
)
from nextword.runtime.files import (
    LOCK_FILES,
    SCHEMA_VERSION,
    DiskFullError,
    Record,
    disk_full_explained,
    full_disk,
    kind_of,
    locked,
    write_atomically,
)

__all__ = [
    "LOCK_FILES",
    "SCHEMA_VERSION",
    "WITH_PROMPT",
    "BreakdownMeaning",
    "Cost",
    "CurvePoint",
    "DiskFullError",
    "Duel",
    "Environment",
    "Evaluation",
    "EvaluationResults",
    "ExamplePrediction",
    "FailedRun",
    "Goal",
    "GridSearch",
    "GroupScore",
    "Measure",
    "MetricValue",
    "ModelScore",
    "PairRecord",
    "Place",
    "Record",
    "Results",
    "RunRecord",
    "SampleFile",
    "ScoreDifference",
    "ScoreResults",
    "Span",
    "SystemRecord",
    "TopWord",
    "TriedSettings",
    "Wins",
    "WrittenExample",
    "WrittenText",
    "disk_full_explained",
    "full_disk",
    "kind_of",
    "locked",
    "write_atomically",
]
