"""A comparison as a page and in the terminal."""
