"""One model is trained: what ``transformers.Trainer`` does not do itself. ``one_training.py`` calls all else here."""
