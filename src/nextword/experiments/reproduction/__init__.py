"""The papers' tables by name: ``nextword reproduce histalign/table-1``.

In the order in which they act:

- ``paper.py``, ``papers/``: every table of a paper with its printed numbers and claims, as data;
- ``experiment.py``, ``experiments.toml``: which recipe, with which data, fills them;
- ``data_sets.py``, ``data_sets.toml``: where that data lies, and where it is to be had;
- ``judge_choice.py``: judges that a user has, where the paper asks for them;
- ``experiment_folder.py``: runs an experiment, a comparison in a folder of its own;
- ``table_numbers.py``: our number for a cell, by its address among the results;
- ``verdict.py``: what becomes of a claim;
- ``table_record.py``: all of a table together;
- ``reproduce_tables.py``: the whole way, for several tables.
"""
