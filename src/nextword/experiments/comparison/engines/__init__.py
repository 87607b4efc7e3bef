"""Engines that schedule the runs of a comparison: one after another, or in parallel with Ray."""

from nextword.experiments.comparison.engines import engine, ray_engine

__all__ = ["engine", "ray_engine"]
