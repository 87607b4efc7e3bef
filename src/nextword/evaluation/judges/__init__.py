"""Model-based metrics. Most run a model, given by local path or hub name, and store the model's outputs.

Importing this package registers these metrics in ``nextword.evaluation.metrics.registry``. The import loads no model
and no model library.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
