"""How the runs of a comparison are carried out: one after another, or side by side as tasks of Ray.

In the order in which they act, called by ``all_methods.py``:

1. ``engine.py``: the contract, and the names of engines.
2. ``sequential.py``: one run after another in this process.
3. ``ray_engine.py``: each run is a task of Ray, ``ray_task.py`` is what happens in it. ``shared_trainings.py`` says
   which runs must wait for one another.
4. ``attempt.py``: one run, or the record of why it failed; the same in every engine.
"""

from nextword.experiments.comparison.engines import ray_engine, sequential

__all__ = ["ray_engine", "sequential"]
