"""Conditioners: how an auxiliary text steers a decoder. Importing this package registers all.

``conditioner.py`` is the contract, and the way from a spec to a conditioner. ``auxiliary_encoder.py`` reads
the text, ``auxiliary_tokenizer.py`` makes its tokens, ``pooling.py`` makes one vector of it. Each other file is a
conditioner.
"""

import importlib
import pkgutil

from nextword.conditioning.conditioner import (
    Conditioner,
    ConditionerConfig,
    conditioner_spec,
    parse_conditioner,
    registry,
)

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Conditioner",
    "ConditionerConfig",
    "conditioner_spec",
    "parse_conditioner",
    "registry",
]
