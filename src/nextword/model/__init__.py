"""Models of transformers with a head of ours; importing this package registers them with the Auto classes."""

from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from nextword.model.attach import attach, load
from nextword.model.config import NextWordConfig, NextWordSeq2SeqConfig
from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM, NextWordModel
from nextword.model.vocabulary import UnsupportedBackboneError

AutoConfig.register(NextWordConfig.model_type, NextWordConfig, exist_ok=True)
AutoConfig.register(NextWordSeq2SeqConfig.model_type, NextWordSeq2SeqConfig, exist_ok=True)
AutoModelForCausalLM.register(NextWordConfig, NextWordForCausalLM, exist_ok=True)
AutoModelForSeq2SeqLM.register(NextWordSeq2SeqConfig, NextWordForSeq2SeqLM, exist_ok=True)

__all__ = [
    "NextWordConfig",
    "NextWordForCausalLM",
    "NextWordForSeq2SeqLM",
    "NextWordModel",
    "NextWordSeq2SeqConfig",
    "UnsupportedBackboneError",
    "attach",
    "load",
]
