"""Conditioners let a decoder-only model read a second, auxiliary text. Importing this package registers them all."""

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
