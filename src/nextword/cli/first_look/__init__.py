"""The quickstart: what there is to see before anything is read."""
