"""One model from data to a folder that is measured, checked and ready to load: the verb ``train``.

In the order in which they act, called by ``train_model.py``:

1. ``train_config.py``: what is asked for. ``run_folder.py``: where everything lies, and whose the folder is.
2. ``data_kinds.py``: what kind of data it is, as one of the tasks; ``prompted_pairs.py`` is the one that only training
   needs.
3. ``starting_model.py``: the tokenizer and the model that training begins with.
4. ``repeated_data.py``: how often the data are read, and that many times are watched.
5. ``nextword.experiments.training`` trains it. ``training_progress.py``: who is told meanwhile. ``overfitting.py``:
   whether validation losses rise.
6. ``trained_model.py``: the model is measured and checked, and saved as a folder.

``added_head.py`` puts a head on a finished model without any of this: the verb ``attach``.
"""
