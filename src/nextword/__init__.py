"""Next-word distributions beyond softmax for Hugging Face language models.

Public names are imported on first use, so that ``nextword --help`` does not wait for torch. ``import nextword`` itself
only registers our models with the Auto classes of transformers, and lets modules be imported by their earlier names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nextword.model import registration
from nextword.settings import old_modules
from nextword.settings.version import __version__ as __version__

if TYPE_CHECKING:
    from nextword import conditioning, heads, objectives
    from nextword.checking.checker import check
    from nextword.conditioning.auxiliary_tokenizer import AuxiliaryTokenizer
    from nextword.distribution import NextToken
    from nextword.evaluation import judges, metrics
    from nextword.evaluation.all_systems import evaluate
    from nextword.experiments.comparison.all_methods import compare
    from nextword.experiments.training.train_model import train
    from nextword.functional import frequency
    from nextword.functional.chunked_loss import score_memory
    from nextword.functional.frequency import count_tokens
    from nextword.inference.generation.generation_run import generate
    from nextword.inference.inspection.trace import Trace
    from nextword.inference.inspection.trace_example import trace
    from nextword.inference.scoring.calibrate import calibrate
    from nextword.inference.scoring.measurement.all_models import score
    from nextword.model.attach import attach, load
    from nextword.model.configuration import NextWordConfig, NextWordSeq2SeqConfig
    from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM
    from nextword.model.speculative_decoding.speculative_decoding import SpeculativeDecoding

_HOME = {
    "AuxiliaryTokenizer": "nextword.conditioning.auxiliary_tokenizer",
    "NextToken": "nextword.distribution",
    "NextWordConfig": "nextword.model.configuration",
    "NextWordForCausalLM": "nextword.model.modeling",
    "NextWordForSeq2SeqLM": "nextword.model.modeling",
    "NextWordSeq2SeqConfig": "nextword.model.configuration",
    "SpeculativeDecoding": "nextword.model.speculative_decoding.speculative_decoding",
    "Trace": "nextword.inference.inspection.trace",
    "attach": "nextword.model.attach",
    "calibrate": "nextword.inference.scoring.calibrate",
    "check": "nextword.checking.checker",
    "compare": "nextword.experiments.comparison.all_methods",
    "count_tokens": "nextword.functional.frequency",
    "evaluate": "nextword.evaluation",
    "generate": "nextword.inference.generation.generation_run",
    "load": "nextword.model.attach",
    "score": "nextword.inference.scoring.measurement.all_models",
    "score_memory": "nextword.functional.chunked_loss",
    "trace": "nextword.inference.inspection.trace_example",
    "train": "nextword.experiments.training.train_model",
}

__all__ = [
    "AuxiliaryTokenizer",
    "NextToken",
    "NextWordConfig",
    "NextWordForCausalLM",
    "NextWordForSeq2SeqLM",
    "NextWordSeq2SeqConfig",
    "SpeculativeDecoding",
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

old_modules.install_old_imports()
registration.register()

_PACKAGES = {
    "conditioning": "nextword.conditioning",
    "frequency": "nextword.functional.frequency",
    "heads": "nextword.heads",
    "judges": "nextword.evaluation.judges",
    "metrics": "nextword.evaluation.metrics",
    "objectives": "nextword.objectives",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(_PACKAGES[name])
    return old_modules.old_names(__name__, calls=1)(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
