"""Objectives compute the training loss of a head's distribution. Importing this package registers all objectives."""

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
