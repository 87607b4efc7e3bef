"""Many methods are compared under equal conditions: one start, the same training and seeds, every run in one folder.

In the order in which they act, called by ``all_methods.py``:

1. ``recipe.py`` reads a recipe.
2. ``comparison_settings.py`` has what a comparison is, and which settings each training of a method has.
3. ``method.py`` has one method of it.
4. ``folder.py`` says where everything lies, and whether the folder belongs to this very comparison.
5. ``preflight.py`` checks the settings, and attaches every method once, so that a mistake costs seconds.
6. ``common_start.py`` loads or trains the checkpoint that every method begins from, and counts the training text where
   a head or a measure goes by it.
7. ``engines/`` carries out the runs, one after another or side by side; one that fails becomes a record of why.
8. ``grid_search.py`` chooses settings of a method by validation likelihood, where it has a search.
9. ``one_run.py`` trains a method with a seed, in one stage or two, measures it and asks it for its texts.
10. ``measured_texts.py`` measures what all methods wrote, and picks what the report shows of it.
11. ``progress.py`` is what a watcher is told meanwhile, stage by stage.
"""
