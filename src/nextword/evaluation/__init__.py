"""Evaluation: samples files in, a table of measures with intervals, tests and a ranking out."""

from nextword.evaluation.all_systems import evaluate
from nextword.evaluation.evaluation_settings import EvaluateConfig
from nextword.evaluation.samples import read_samples

__all__ = ["EvaluateConfig", "evaluate", "read_samples"]
