"""One model from data to a folder that is measured, checked and ready to load: the verbs ``train`` and ``attach``."""
