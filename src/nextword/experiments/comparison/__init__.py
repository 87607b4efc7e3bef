"""Many methods are compared under equal conditions: one start, the same training and seeds, every run in one folder.

``all_methods.py`` calls all else here.
"""
