"""Training of one model: ``train_model.py`` is the entry, and ``one_training.py`` calls transformers."""
