"""Ways to tell the tokens of a text apart, by what stood before them and by how frequent they are.

- ``breakdown.py``: the contract;
- ``new_and_repeated.py``, ``copied_spans.py``, ``frequency_bands.py``, ``text_position.py``: one way each;
- ``earlier_tokens.py``: where the same tokens stood before.
"""
