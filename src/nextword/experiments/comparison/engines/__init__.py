"""How the runs of a comparison are carried out: one after another, or side by side as tasks of Ray.

In the order in which they act, called by ``all_methods.py``:

1. ``engine.py``: the contract, and the names of engines.
   One run after another in this process is the engine beside it; a run that fails becomes a record of why.
2. ``ray_engine.py``: each run is a task of Ray.
"""

from nextword.experiments.comparison.engines import engine, ray_engine

__all__ = ["engine", "ray_engine"]
