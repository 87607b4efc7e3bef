"""Several texts in one row (packing): found by their positions, and each laid out in a row of its own.

- ``packed_texts.py``: where a pass has such rows, and why some may not have them.
- ``parting_backbones.py``: which backbones keep the texts of a row apart.
- ``text_rows.py``: the rows that the head is given in their place, so that no head and no objective knows of packing.
"""
