"""Stores a backbone's states (``state_files.py``), and reads them instead of running it (``stored_backbone.py``)."""
