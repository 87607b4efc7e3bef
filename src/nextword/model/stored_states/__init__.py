"""A backbone whose states are computed only once: ``state_files.py`` stores them, ``stored_backbone.py`` reads them."""
