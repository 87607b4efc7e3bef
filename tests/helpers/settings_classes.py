"""Every class of settings that a user can write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from nextword.conditioning import registry as conditioners
from nextword.evaluation import EvaluateConfig
from nextword.evaluation.metrics.metric import registry as metrics
from nextword.evaluation.survey.kinds import registry as surveys
from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.tasks import registry as tasks
from nextword.experiments.training.settings import TrainingSettings
from nextword.experiments.training.train_config import TrainConfig
from nextword.heads import registry as heads
from nextword.objectives import registry as objectives

ROOTS: dict[str, type[BaseModel]] = {
    f"{kind}:{name}": registry.get(name).Config
    for kind, registry in {
        "head": heads, "objective": objectives, "conditioner": conditioners, "metric": metrics, "task": tasks,
        "survey": surveys,
    }.items()
    for name in registry.names()
} | {
    "evaluate": EvaluateConfig, "compare": CompareConfig, "training": TrainingSettings, "train": TrainConfig,
}  # fmt: skip


def parts(annotation: Any) -> Iterator[Any]:
    """An annotation and everything in its brackets."""
    yield annotation
    for part in get_args(annotation):
        yield from parts(part)


REQUIRED: dict[str, dict[str, Any]] = {
    "EvaluateConfig": {"systems": {"a": ["a.jsonl"]}},
    "CompareConfig": {"task": "lm", "methods": [{"head": "softmax"}]},
    "TrainConfig": {"task": {"data": "a.txt"}},
    "PartitionConfig": {"context": True},
}
