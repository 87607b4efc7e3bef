"""The papers' tables by name: ``nextword reproduce histalign/table-1``.

A table (``papers/``) names experiments (``experiments.toml``), these a recipe and data (``data_sets.toml``).
"""
