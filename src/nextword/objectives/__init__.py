"""Objectives: from a distribution and targets to a loss. Importing this package registers all.

``objective.py`` is the contract, and the way from a spec to an objective; ``loss.py`` is what an objective returns.
Each other file is an objective, or a modifier of objectives.
"""

import importlib
import pkgutil

from nextword.objectives.loss import Loss, modifiers
from nextword.objectives.objective import Objective, ObjectiveConfig, objective_spec, parse_objective, registry

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Loss", "Objective", "ObjectiveConfig", "modifiers", "objective_spec", "parse_objective", "registry"]
