"""Evaluation: compute metrics of samples files, with confidence intervals, tests and a ranking."""

from nextword.evaluation.all_systems import evaluate
from nextword.evaluation.evaluation_settings import EvaluateConfig
from nextword.evaluation.samples import read_samples

__all__ = ["EvaluateConfig", "evaluate", "read_samples"]
