"""How likely texts are to one model or several: ``nw.score`` and ``nextword score``.

In the order in which they act:

1. ``score_settings.py`` has what can be set.
2. ``all_models.py`` leads: each model in turn, then values, intervals and tests.
3. ``data_files.py`` reads files, tables and data sets as texts, one after another.
4. ``unfinished_score.py`` cuts the texts into chunks, and keeps the sums so far as a file.
5. ``model_passes.py`` takes one model over all chunks, and has what a model is asked, here or in other processes.
6. ``scored_texts.py`` makes of a text the tokens of a model, and the windows that score each token once.
7. ``token_answers.py`` has what a model says of every token, also as lines of a file.
8. ``unit_sums.py`` adds the answers up, by the units that intervals draw anew.
"""
