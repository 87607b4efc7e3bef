"""Trainings whose rows see one another: in the order of a text, or alike.

- ``remembering_trainer.py``: what both need;
- ``consecutive_trainer.py``: rows in the order of the text, with a memory that goes from step to step;
- ``alike_rows.py``, ``alike_trainer.py``: batches of rows that are alike, by BM25.
"""
