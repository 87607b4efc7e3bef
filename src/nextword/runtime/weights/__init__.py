"""A model's weights as things that take room.

1. ``model_size_check.py`` refuses, before any memory is taken, what does not fit into it.
2. ``held_weights.py`` holds weights in a lower precision, and in files where processes are to share them.
"""
