"""How the runs of a comparison are carried out: one after another, or side by side as tasks of Ray.

In the order in which they act, called by ``experiments/comparison/all_methods.py``:

1. ``engine.py`` has the contract, the engine that does one run after another in this process, what becomes of a run
   that fails, and which runs may be at work at the same time.
2. ``ray_engine.py`` makes each run a task of Ray.
"""

from nextword.experiments.comparison.engines import engine, ray_engine

__all__ = ["engine", "ray_engine"]
