"""Textbook forms in float64: the judge of every formula in the library. They import nothing of the library."""
