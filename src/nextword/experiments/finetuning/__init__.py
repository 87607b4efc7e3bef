"""One model from data to a folder that is measured, checked and ready to load: the verb ``train``.

In the order in which they act, called by ``train_model.py``:

1. ``train_config.py`` has what is asked for.
2. ``run_folder.py`` says where everything lies, and whose the folder is.
3. ``data_kinds.py`` says what kind of data it is, as one of the tasks, and has the one that only training needs: pairs
   for decoder-only models.
4. ``starting_model.py`` has the tokenizer and the model that training begins with.
5. ``training_progress.py`` tells whoever is watching how far ``nextword.experiments.training`` is, and that validation
   losses rise.
6. ``train_model.py`` itself says how often the data are read, and measures, checks and saves the trained model.

``added_head.py`` puts a head on a finished model without any of this: the verb ``attach``.
"""
