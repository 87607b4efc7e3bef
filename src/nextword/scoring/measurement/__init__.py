"""How likely texts are to one model or several: ``nw.score`` and ``nextword score``.

In the order in which they act:

- ``score_settings.py``: what can be set;
- ``data_files.py``: files, tables and data sets as texts;
- ``scored_texts.py``: a text in tokens of a model, and the windows that score each token once;
- ``token_answers.py``: what a model says of every token;
- ``tokens_file.py``: the same as a file;
- ``interval_units.py``: what intervals draw anew;
- ``model_values.py``, ``paired_differences.py``: sums, intervals and tests;
- ``all_models.py``: all of it, for each model.
"""
