"""How likely texts are to one model or several: ``nw.score`` and ``nextword score``.

In the order in which they act:

- ``score_settings.py``: what can be set;
- ``data_files.py``: files, tables and data sets as texts, read one after another;
- ``text_chunks.py``: a few of them at a time;
- ``interval_units.py``: what intervals draw anew;
- ``model_passes.py``: one model over all chunks, ``model_tasks.py`` what it is asked, here or in other processes;
- ``scored_texts.py``: a text in tokens of a model, and the windows that score each token once;
- ``token_answers.py``: what a model says of every token;
- ``tokens_file.py``: the same as a file;
- ``unit_sums.py``: the same added up, ``unfinished_score.py`` the sums so far as a file;
- ``model_values.py``, ``paired_differences.py``: values, intervals and tests;
- ``all_models.py``: all of it, for each model.
"""
