"""How likely texts are to one model or several: ``nw.score`` and ``nextword score``.

In the order in which they act:

1. ``score_settings.py`` has what can be set.
2. ``data_files.py`` reads files, tables and data sets as texts, one after another.
3. ``unfinished_score.py`` cuts the texts into chunks, and keeps the sums so far as a file.
4. ``model_passes.py`` takes one model over all chunks, and has what it is asked, here or in other processes.
5. ``scored_texts.py`` makes tokens of a text, and the windows that score each token once.
6. ``token_answers.py`` has what a model says of every token, also as lines of a file.
7. ``unit_sums.py`` adds the answers up, for the units that intervals draw anew.
8. ``all_models.py`` does all of it for each model, and makes values, intervals and tests of the sums.
"""
