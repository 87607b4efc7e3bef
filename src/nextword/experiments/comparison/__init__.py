"""Many methods are compared under equal conditions: one start, the same training and seeds, every run in one folder.

In the order in which they act, called by ``all_methods.py``:

1. ``recipe.py`` reads a recipe into a ``comparison_settings.py``, whose methods are each a ``method.py``.
2. ``folder.py``: where everything lies; ``same_comparison.py``: whether the folder belongs to this very comparison.
3. ``preflight.py`` attaches every method once, so that a mistake costs seconds; ``corpus_counts.py`` counts the
   training text where a head or a measure goes by it.
4. ``common_start.py``: the checkpoint that every method begins from, loaded or trained first.
5. ``search/`` chooses settings of a method by validation likelihood, where it has a search.
6. ``one_run.py``, for each method and seed: trained as ``stage_settings.py`` says, measured, asked for its texts.
   Where it fails, ``failure.py`` records why, and the others go on.
7. ``measured_texts.py`` measures what all methods wrote, ``shown_examples.py`` picks what the report shows of it.

``progress.py`` is what a watcher is told meanwhile, stage by stage.
"""
