"""How the runs of a comparison are carried out: one after another, or side by side as tasks of Ray."""

from nextword.experiments.comparison.engines import engine, ray_engine

__all__ = ["engine", "ray_engine"]
