"""Metrics: pure functions over texts and arrays, and a class each that reads samples. They know no model.

Importing this package registers all. ``registry`` finds those of ``nextword.evaluation.judges`` too, which ask a
trained model: it imports them when it does not know a name, or lists all.
"""

import importlib
import pkgutil

from nextword.evaluation.metrics.metric import (
    Metric,
    MetricConfig,
    Score,
    Setup,
    UndefinedError,
    metric_of,
    parse_metric,
    registry,
)
from nextword.evaluation.metrics.sample import MissingFieldError, Sample, Table

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Metric",
    "MetricConfig",
    "MissingFieldError",
    "Sample",
    "Score",
    "Setup",
    "Table",
    "UndefinedError",
    "metric_of",
    "parse_metric",
    "registry",
]
