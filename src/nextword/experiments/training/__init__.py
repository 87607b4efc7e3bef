"""One model from data to a folder that loads: ``train_model.py``, and ``one_training.py``, which calls transformers."""
