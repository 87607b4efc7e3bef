"""Comparisons of methods under equal conditions: one initial checkpoint, the same training settings and seeds.

``all_methods.py`` has the functions to call first.
"""
