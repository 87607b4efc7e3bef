"""Objectives compute the training loss from a distribution and its targets. Importing this package registers all."""

import importlib
import pkgutil

from nextword.objectives.objective import (
    Loss,
    Objective,
    ObjectiveConfig,
    modifiers,
    objective_spec,
    parse_objective,
    registry,
)

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Loss", "Objective", "ObjectiveConfig", "modifiers", "objective_spec", "parse_objective", "registry"]
