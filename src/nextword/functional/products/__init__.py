"""Products of states with an output embedding, and of queries with keys.

- ``in_pieces.py``: of few states with a large matrix; ``dense.py``: of several sets of states, with gradients;
- ``picked_rows.py``: with few rows, copied in blocks; ``rows_in_place.py``: with rows where they lie;
- ``grouped_rows.py``: with rows by groups; ``keys_in_place.py``: with the keys of a memory.
"""
