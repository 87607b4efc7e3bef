"""Next-word distributions beyond softmax for Hugging Face language models.

Public names are imported when first used, so that ``nextword --help`` does not wait for torch. What is imported at once
makes our models known to the Auto classes of transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nextword.model import registration

if TYPE_CHECKING:
    from nextword import conditioning, frequency, heads, judges, metrics, objectives
    from nextword.checking.checker import check
    from nextword.comparison.all_methods import compare
    from nextword.conditioning.parts.auxiliary_tokenizer import AuxiliaryTokenizer
    from nextword.decoding.generation_run import generate
    from nextword.distribution import NextToken
    from nextword.evaluation.all_systems import evaluate
    from nextword.finetuning.train_model import train
    from nextword.frequency import count_tokens
    from nextword.functional.chunked.budget import score_memory
    from nextword.inspection.trace import Trace
    from nextword.inspection.trace_example import trace
    from nextword.model.attach import attach, load
    from nextword.model.configuration import NextWordConfig, NextWordSeq2SeqConfig
    from nextword.model.drafting.drafting import Drafting
    from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM
    from nextword.scoring.calibration.calibrate import calibrate
    from nextword.scoring.measurement.all_models import score

__version__ = "0.2.0"

_HOME = {
    "AuxiliaryTokenizer": "nextword.conditioning.parts.auxiliary_tokenizer",
    "Drafting": "nextword.model.drafting.drafting",
    "NextToken": "nextword.distribution",
    "NextWordConfig": "nextword.model.configuration",
    "NextWordForCausalLM": "nextword.model.modeling",
    "NextWordForSeq2SeqLM": "nextword.model.modeling",
    "NextWordSeq2SeqConfig": "nextword.model.configuration",
    "Trace": "nextword.inspection.trace",
    "attach": "nextword.model.attach",
    "calibrate": "nextword.scoring.calibration.calibrate",
    "check": "nextword.checking.checker",
    "compare": "nextword.comparison.all_methods",
    "count_tokens": "nextword.frequency",
    "evaluate": "nextword.evaluation",
    "generate": "nextword.decoding.generation_run",
    "load": "nextword.model.attach",
    "score": "nextword.scoring.measurement.all_models",
    "score_memory": "nextword.functional.chunked.budget",
    "trace": "nextword.inspection.trace_example",
    "train": "nextword.finetuning.train_model",
}

__all__ = [
    "AuxiliaryTokenizer",
    "Drafting",
    "NextToken",
    "NextWordConfig",
    "NextWordForCausalLM",
    "NextWordForSeq2SeqLM",
    "NextWordSeq2SeqConfig",
    "Trace",
    "attach",
    "calibrate",
    "check",
    "compare",
    "conditioning",
    "count_tokens",
    "evaluate",
    "frequency",
    "generate",
    "heads",
    "judges",
    "load",
    "metrics",
    "objectives",
    "score",
    "score_memory",
    "trace",
    "train",
]

registration.register()


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in ("conditioning", "frequency", "heads", "judges", "metrics", "objectives"):
        return importlib.import_module(f"nextword.{name}")
    raise AttributeError(f"module 'nextword' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
