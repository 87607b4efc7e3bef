"""Metrics: pure functions over texts and arrays, and a class each that reads samples. They know no model.

Each states its formula, unit and source. Importing this package registers all; ``registry.names()`` lists them,
together with those of ``nextword.judges``, which ask a trained model.
"""

import importlib
import pkgutil

from nextword.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, parse_metric, registry
from nextword.metrics.sample import MissingFieldError, Sample, Table

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
    "parse_metric",
    "registry",
]
