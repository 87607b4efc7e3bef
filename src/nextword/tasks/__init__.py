"""Tasks: data in, training examples and measurements out. ``registry.names()`` lists them.

Every module here is imported, so that a new file with a registered class is found without editing a list.
"""

from __future__ import annotations

import importlib
import pkgutil

from nextword.decoding.strategies import Texts
from nextword.scoring.ask import Progress
from nextword.tasks.task import Start, Task, registry

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Progress", "Start", "Task", "Texts", "registry"]
