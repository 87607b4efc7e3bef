"""Conditioners let a decoder follow an auxiliary text. Importing this package registers all of them."""

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
