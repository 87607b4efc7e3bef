"""Many methods under equal conditions: one start, the same training and seeds, every run in one folder."""
