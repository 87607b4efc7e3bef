"""An evaluation as a table, as a page and in the terminal."""
