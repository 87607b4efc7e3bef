"""Comparisons of methods under equal conditions: one initial checkpoint, the same training settings and seeds.

Begin with ``compare`` in ``all_methods.py``.
"""
