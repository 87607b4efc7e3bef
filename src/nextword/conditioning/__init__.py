"""Conditioners: how an auxiliary text steers a decoder. One a file; importing this package registers all."""

import importlib
import pkgutil

from nextword.conditioning.conditioner import Conditioner, ConditionerConfig, registry
from nextword.conditioning.parsing import conditioner_spec, parse_conditioner

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Conditioner",
    "ConditionerConfig",
    "conditioner_spec",
    "parse_conditioner",
    "registry",
]
