"""Asking a model: the likelihood of given text, generation, what a head looks at, datastores of its states."""
