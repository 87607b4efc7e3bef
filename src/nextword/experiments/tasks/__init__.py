"""Tasks. Each reads data and provides training rows and measurements. ``task.py`` has the base class.

All modules of this package are imported, so that a registered task in a new file is found automatically.
"""

from __future__ import annotations

import importlib
import pkgutil

from nextword.experiments.tasks.task import Data, Measures, Pretraining, Start, Task, Writes, registry
from nextword.experiments.tasks.writing import Texts
from nextword.inference.scoring.opened_model import Progress

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Data", "Measures", "Pretraining", "Progress", "Start", "Task", "Texts", "Writes", "registry"]
