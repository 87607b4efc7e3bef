"""The papers' tables by name: ``nextword reproduce histalign/table-1``.

In the order in which they act:

1. ``paper.py`` has every table of a paper with its printed numbers and claims, as data of the folder ``papers/``.
2. ``experiment.py`` says which recipe, with which data, fills the tables, as ``experiments.toml`` lists it, and what
   that takes at small scale.
3. ``data_sets.py`` says where that data lies and where it is to be had, as ``data_sets.toml`` lists it.
4. ``experiment_folder.py`` runs an experiment, a comparison in a folder of its own, with the judges that a user has
   where the paper asks for them.
5. ``table_numbers.py`` finds our number for a cell, by its address among the results.
6. ``table_record.py`` fills a table, and says what becomes of its claims.
7. ``reproduce_tables.py`` goes the whole way, for several tables.
8. ``planning/`` says beforehand what that takes.
"""
