"""Metrics that load no model. Most have a pure function over texts or arrays, and each has a class that reads samples.

Importing this package registers the metrics. ``registry`` also finds the model-based metrics of
``nextword.evaluation.judges``: it imports that package when a name is not registered yet or all names are listed.
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
