"""Objectives: from a distribution and targets to a loss. One a file; importing this package registers all."""

import importlib
import pkgutil

from nextword.objectives.objective import Objective, ObjectiveConfig, registry
from nextword.objectives.parts.loss import Loss
from nextword.objectives.parts.objective_modifiers import modifiers
from nextword.objectives.parts.objective_spec import objective_spec, parse_objective

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Loss", "Objective", "ObjectiveConfig", "modifiers", "objective_spec", "parse_objective", "registry"]
