"""Training of one model. ``train_model.py`` has the function to call, and ``one_training.py`` calls transformers."""
