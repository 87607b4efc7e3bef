"""The report of a comparison, as an HTML page and in the terminal."""
