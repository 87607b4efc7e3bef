"""Settings of a method chosen by validation likelihood before its runs.

``grid_search.py`` trains every combination and takes the best; ``validation_likelihood.py`` says which that is.
"""
