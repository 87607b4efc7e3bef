"""Reproduce the papers' tables: ``nextword reproduce histalign/table-1``.

A table (``papers/``) names experiments (``experiments.toml``). An experiment names a recipe and data sets
(``data_sets.toml``).
"""
