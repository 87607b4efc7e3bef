"""A backbone whose states were computed once: ``state_files.py`` keeps them, ``stored_backbone.py`` answers."""
