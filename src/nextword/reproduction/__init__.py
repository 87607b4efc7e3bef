"""The papers' tables by name: ``nextword reproduce histalign/table-1``.

In the order in which they act:

- ``paper.py``, ``papers/``: every table of a paper with its printed numbers and claims, as data.
"""
